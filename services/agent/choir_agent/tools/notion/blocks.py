"""Convert Notion's blocks to Markdown, and Markdown to blocks. Pure.

Block types that Markdown lacks are rendered as their name in brackets, so that a reader knows they exist.
"""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

# Notion's limit for one text object, in characters.
MAX_TEXT = 2_000
_PREFIXES = {
    "heading_1": "# ",
    "heading_2": "## ",
    "heading_3": "### ",
    "bulleted_list_item": "- ",
    "numbered_list_item": "1. ",
    "quote": "> ",
    "callout": "> ",
    "toggle": "- ",
    "paragraph": "",
}
_LINE = re.compile(
    r"(?P<heading>#{1,3}) +|(?P<todo>[-*] +\[[ xX]\] +)|(?P<bullet>[-*] +)|"
    r"(?P<number>\d+[.)] +)|(?P<quote>> ?)"
)
_HEADINGS = {1: "heading_1", 2: "heading_2", 3: "heading_3"}
FENCE = "```"


def rich_text_to_markdown(rich: JsonValue) -> str:
    """Return a rich text as Markdown: links and code are marked, other styles dropped."""
    pieces = [piece for piece in rich if isinstance(piece, dict)] if isinstance(rich, list) else []
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: JsonObject) -> str:
    text = str(piece.get("plain_text") or "")
    styles, link = piece.get("annotations"), piece.get("href")
    if isinstance(styles, dict) and styles.get("code") is True:
        text = f"`{text}`"
    return f"[{text}]({link})" if isinstance(link, str) and link and text != link else text


def block_to_markdown(block: JsonObject, depth: int) -> str:
    """Return one block as one or more lines of Markdown, indented by its depth."""
    kind = str(block.get("type"))
    value = block.get(kind)
    content = value if isinstance(value, dict) else {}
    indent = "  " * depth
    return "\n".join(indent + line for line in _lines(kind, content))


def _lines(kind: str, content: JsonObject) -> list[str]:
    text = rich_text_to_markdown(content.get("rich_text"))
    match kind:
        case "to_do":
            return [f"- [{'x' if content.get('checked') is True else ' '}] {text}"]
        case "code":
            return [f"{FENCE}{content.get('language') or ''}", *text.split("\n"), FENCE]
        case "divider":
            return ["---"]
        case "child_page" | "child_database":
            return [f"[{kind.replace('_', ' ')}: {content.get('title')}]"]
        case "equation":
            return [f"$${content.get('expression')}$$"]
        case "table_row":
            cells = content.get("cells")
            texts = (
                [rich_text_to_markdown(cell) for cell in cells] if isinstance(cells, list) else []
            )
            return [f"| {' | '.join(texts)} |"]
        case "image" | "file" | "video" | "pdf" | "audio" | "bookmark" | "embed" | "link_preview":
            return [
                f"[{kind}: {rich_text_to_markdown(content.get('caption')) or _address(content)}]"
            ]
        case "table" | "column_list" | "column" | "synced_block":
            # Only containers: their children are rendered.
            return []
    if kind in _PREFIXES:
        return [_PREFIXES[kind] + line for line in text.split("\n")]
    return [f"[{kind}] {text}".rstrip()]


def _address(content: JsonObject) -> str:
    for source in (content, content.get("external"), content.get("file")):
        if isinstance(source, dict) and isinstance(source.get("url"), str):
            return str(source["url"])
    return "no address"


def markdown_to_blocks(markdown: str) -> list[JsonObject]:
    """Return Markdown as blocks: headings, lists, to-dos, quotes, code, dividers, paragraphs."""
    blocks: list[JsonObject] = []
    lines = iter(markdown.split("\n"))
    for line in lines:
        if line.startswith(FENCE):
            blocks.append(_code(line.removeprefix(FENCE).strip(), lines))
        elif line.strip() in ("---", "***"):
            blocks.append({"object": "block", "type": "divider", "divider": {}})
        elif line.strip():
            blocks.append(_block(line.strip()))
    return blocks


def _code(language: str, lines: Iterator[str]) -> JsonObject:
    code: list[str] = []
    for line in lines:
        if line.startswith(FENCE):
            break
        code.append(line)
    # Notion rejects unknown languages; wrong highlighting is better than no page.
    content: JsonObject = {
        "rich_text": text_to_rich_text("\n".join(code)),
        "language": "plain text",
    }
    if language in (
        "python",
        "bash",
        "json",
        "javascript",
        "typescript",
        "go",
        "rust",
        "sql",
        "yaml",
    ):
        content["language"] = language
    return {"object": "block", "type": "code", "code": content}


def _block(line: str) -> JsonObject:
    match = _LINE.match(line)
    kind, text = "paragraph", line
    content: JsonObject = {}
    if match:
        text = line[match.end() :]
        match match.lastgroup:
            case "heading":
                kind = _HEADINGS[len(match["heading"])]
            case "todo":
                kind, content = "to_do", {"checked": "x" in match["todo"].lower()}
            case "bullet":
                kind = "bulleted_list_item"
            case "number":
                kind = "numbered_list_item"
            case _:
                kind = "quote"
    return {
        "object": "block",
        "type": kind,
        kind: {"rich_text": text_to_rich_text(text), **content},
    }


def text_to_rich_text(text: str) -> list[JsonValue]:
    """Return a text as Notion's text objects, split at Notion's size limit."""
    pieces = [text[start : start + MAX_TEXT] for start in range(0, len(text), MAX_TEXT)]
    return [{"type": "text", "text": {"content": piece}} for piece in pieces]

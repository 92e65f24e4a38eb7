"""Parser from a model's Markdown to styled text. Pure.

Elements without a form in messages become characters: a heading is bold, a list has bullets, a table
is a block of aligned columns. A quotation is italic: only Choir's own words are quotations. HTML and
entities stay as written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

from choir_gateway.channels.formatting.styled import Styled, Tag, TextMark, TextRun, make_plain

# Indented text is not code, `[x]: y` is not an address, dashes below a line are not a heading:
# models do not mean any of these.
DISABLED_RULES = ("code", "reference", "lheading", "html_block", "html_inline", "entity")
LINK_SCHEMES = ("http://", "https://", "tg://", "mailto:")
BULLETS = ("• ", "◦ ", "▪ ")
RULE = "———"
INLINE: dict[str, Tag] = {"strong": "b", "em": "i", "s": "s"}


def parse_markdown(text: str) -> Styled:
    """Return the text with its marks; if nothing visible remains, return it as written."""
    reader = (
        MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable(list(DISABLED_RULES))
    )
    page = _Renderer()
    for block in _blocks(reader.parse(text)):
        page.add(block)
    return page.runs if any(run.text.strip() for run in page.runs) else make_plain(text)


@dataclass
class _List:
    """An open list; `next` is the number of its next item, or None for bullets."""

    next: int | None
    tight: bool = True


@dataclass
class _Renderer:
    """Writer of styled text: the runs written so far, and the open marks and lists."""

    runs: list[TextRun] = field(default_factory=list)
    marks: list[TextMark] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    prefix: str = ""
    gap: str = ""
    count: int = 0

    def add(self, token: Token | list[list[str]]) -> None:
        """Write one block token, or a table."""
        if isinstance(token, list):
            self._block(_columns(token), "pre")
            return
        match token.type:
            case "heading_open" | "blockquote_open":
                self._separate()
                # Quotations are for Choir's own words.
                self._open("b" if token.type == "heading_open" else "i")
            case "heading_close" | "blockquote_close":
                self._close()
                self.gap = "\n\n"
            case "bullet_list_open" | "ordered_list_open":
                self._separate()
                start = int(token.attrGet("start") or 1)
                self.lists.append(_List(start if token.type.startswith("ordered") else None))
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
                self.gap = "\n" if self.lists else "\n\n"
            case "list_item_open":
                self._begin_item()
            case "paragraph_close":
                self.gap = "\n" if token.hidden else "\n\n"
            case "inline":
                self._separate()
                self._inline(token.children or [])
            case "fence" | "code_block":
                self._block(token.content.rstrip("\n"), "pre", token.info.strip().split(" ")[0])
            case "hr":
                self._block(RULE)
            case _:
                return

    def _begin_item(self) -> None:
        self._separate()
        items = self.lists[-1]
        depth = len(self.lists) - 1
        if items.next is None:
            bullet = BULLETS[min(depth, len(BULLETS) - 1)]
        else:
            bullet = f"{items.next}. "
            items.next += 1
        self.prefix = "  " * depth + bullet

    def _separate(self) -> None:
        """Write the gap between two blocks, and the bullet before an item's first text."""
        if self.runs and self.gap:
            self._write(self.gap)
        self.gap = ""
        if self.prefix:
            self._write(self.prefix)
            self.prefix = ""

    def _block(self, text: str, tag: Tag | None = None, detail: str = "") -> None:
        self._separate()
        if tag:
            self._open(tag, detail)
        self._write(text)
        if tag:
            self._close()
        self.gap = "\n\n"

    def _inline(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            name = token.type.removesuffix("_open").removesuffix("_close")
            match token.type:
                case "text" | "text_special":
                    self._write(token.content)
                case "softbreak" | "hardbreak":
                    self._write("\n")
                case "code_inline":
                    self._open("code")
                    self._write(token.content)
                    self._close()
                case "strong_open" | "em_open" | "s_open":
                    self._open(INLINE[name])
                case "link_open":
                    self._open("a", str(token.attrGet("href") or ""))
                case "strong_close" | "em_close" | "s_close":
                    self._close()
                case "link_close":
                    self._close_link()
                case "image":
                    self._open("a", str(token.attrGet("src") or ""))
                    self._write(token.content or "image")
                    self._close_link()
                case _:
                    self._write(token.content)

    def _open(self, tag: Tag, detail: str = "") -> None:
        self.count += 1
        self.marks.append(TextMark(tag, self.count, detail))

    def _close_link(self) -> None:
        address = self.marks.pop().detail
        if not address.lower().startswith(LINK_SCHEMES):
            # Messengers do not open such an address, so show it as text.
            self._write(f" ({address})")

    def _close(self) -> None:
        self.marks.pop()

    def _write(self, text: str) -> None:
        if text:
            self.runs.append(TextRun(text, _allowed_marks(self.marks)))


def _allowed_marks(marks: Sequence[TextMark]) -> tuple[TextMark, ...]:
    """Remove combinations of marks that messengers reject, and links that they do not open."""
    allowed: list[TextMark] = []
    for mark in marks:
        if mark.tag in {"pre", "code"}:
            # Code cannot be combined with other marks.
            allowed = []
        if mark.tag == "a" and not mark.detail.lower().startswith(LINK_SCHEMES):
            continue
        if all(mark.tag != other.tag for other in allowed):
            allowed.append(mark)
    return tuple(allowed)


def _blocks(tokens: Sequence[Token]) -> Iterator[Token | list[list[str]]]:
    """Yield the tokens, with each table replaced by the texts of its cells."""
    rows: list[list[str]] = []
    in_table = False
    for token in tokens:
        match token.type:
            case "table_open":
                rows, in_table = [], True
            case "table_close":
                in_table = False
                yield rows
            case "tr_open":
                rows.append([])
            case "inline" if in_table:
                rows[-1].append("".join(_words(token.children or [])))
            case _ if not in_table:
                yield token


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        yield " " if token.type in {"softbreak", "hardbreak"} else token.content


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

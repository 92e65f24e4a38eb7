"""What tests read of documents: commands in fenced blocks, sentences, headings. Pure apart from reading."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^([ \t]*)```.*?^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
ANCHOR_WORD = re.compile(r"[^\w\- ]")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)")
DRAWN = re.compile(r"^\s*[#{\"]|──")
"""Comments, JSON and drawings in fenced blocks."""
# A full stop after these does not end a sentence.
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|approx|St|No|Dr|Mr|Ms)\.$")
SENTENCE_END = re.compile(r"[.!?][)\"”’]*(?=\s|$)")
WORD = re.compile(r"[A-Za-z0-9À-ž][\w'’\-]*")


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """A line of a page that calls choirctl."""

    page: str
    line: int
    words: tuple[str, ...]
    """The words after `choirctl`."""


def documents() -> list[Path]:
    """Return every page that people read, without decisions, which are history."""
    folders = ("docs", "examples")
    pages = [page for folder in folders for page in sorted((ROOT / folder).rglob("*.md"))]
    pages = [page for page in pages if "decisions" not in page.parts and page.name != "SKILL.md"]
    for folder in ("libs", "services", "deploy"):
        pages += sorted((ROOT / folder).glob("*/README.md"))
    return [*sorted(ROOT.glob("*.md")), *pages]


def fenced_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line in a fenced block; `\\` joins lines."""
    for fence in FENCE.finditer(text):
        first = text.count("\n", 0, fence.start()) + 2
        joined, start = "", first
        for number, line in enumerate(fence.group().splitlines()[1:-1], start=first):
            start = start if joined else number
            joined += line
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            yield start, joined
            joined = ""


def commands_of(path: Path) -> Iterator[DocumentedCommand]:
    """Yield every call of choirctl in the fenced blocks of a page."""
    page = path.relative_to(ROOT).as_posix()
    quoted = ""
    for number, line in fenced_lines(path.read_text()):
        if not quoted and (not re.search(r"\bchoirctl\b", line) or DRAWN.search(line)):
            continue
        try:
            words = shlex.split(quoted + line, comments=True)
        except ValueError:  # a quotation that ends on a later line
            quoted += f"{line}\n"
            continue
        quoted = ""
        yield from (DocumentedCommand(page, number, call) for call in _calls(words))
    if quoted:
        raise ValueError(f"{page}: a quotation without end: {quoted}")


def _calls(words: list[str]) -> Iterator[tuple[str, ...]]:
    for start, word in enumerate(words):
        if word == "choirctl" or word.endswith("/bin/choirctl"):
            call: list[str] = []
            for following in words[start + 1 :]:
                if following in ("&&", "||", ";", "|", "<", ">"):
                    break
                call.append(following)
            yield tuple(call)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = LINK.sub(r"\1", heading).replace("`", "").strip().lower()
        found.add(ANCHOR_WORD.sub("", plain).replace(" ", "-"))
    return found


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a page as plain text, without code and headings."""
    plain = FENCE.sub("", text)
    plain = re.sub(r"^---\n.*?^---\n", "", plain, count=1, flags=re.MULTILINE | re.DOTALL)
    block: list[str] = []
    for line in [*plain.splitlines(), ""]:
        stripped = line.strip().removeprefix("> ")
        item = re.match(r"(?:[-*]|\d+\.) +", stripped)
        if stripped.startswith("|"):
            # cells are lists, whose entries end with a semicolon
            entries = re.split(r"(?<!\\)\||;\s", stripped)
            yield from (_plain(entry) for entry in entries if " " in entry.strip())
        ends = not stripped or stripped.startswith(("#", "|", "!["))
        if (ends or item) and block:
            yield _plain(" ".join(block))
            block = []
        if not ends:
            block.append(stripped[item.end() :] if item else stripped)


def _plain(text: str) -> str:
    text = LINK.sub(r"\1", text)
    # a span of code is one word, whatever is in it
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\{ \.[^}]*\}|<https?://[^>]*>", "", text)
    return re.sub(r"[*_]{1,2}(\S[^*_]*?)[*_]{1,2}", r"\1", text)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph. Only a full stop, a question or an exclamation mark ends one."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        part = text[start : end.end()]
        if ABBREVIATION.search(part.rstrip()):
            continue
        if part.strip():
            yield part.strip()
        start = end.end()
    if text[start:].strip():
        yield text[start:].strip()


def sentence_lengths(path: Path) -> list[tuple[int, str]]:
    """Return the words of each sentence of a page, and the sentence."""
    return [
        (len(WORD.findall(sentence)), sentence)
        for paragraph in paragraphs(path.read_text())
        for sentence in sentences(paragraph)
        if WORD.search(sentence)
    ]


def ninetieth_percentile(lengths: list[int]) -> int:
    """Return the length that nine of ten sentences do not exceed."""
    ordered = sorted(lengths)
    return ordered[max(0, -(-len(ordered) * 9 // 10) - 1)] if ordered else 0

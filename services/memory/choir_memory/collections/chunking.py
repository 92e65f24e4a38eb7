"""Split a document into pieces for search, each with its headings: pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PIECE_CHARS = 1_200
"""Maximum characters: a few paragraphs, enough to answer one question."""
DENSE_PIECE_CHARS = 400
"""Maximum characters for scripts in which each character is a word."""
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_BREAKS = ("\n\n", "\n", "。", ". ", "! ", "? ", " ")


@dataclass(frozen=True, slots=True)
class DocumentPiece:
    """A part of a document with the headings above it, outermost first."""

    headings: tuple[str, ...]
    text: str


def split_document(text: str, *, headings: bool = True) -> list[DocumentPiece]:
    """Return a document in pieces that end at a paragraph, line or sentence where possible.

    With `headings`, a Markdown heading starts a new piece and is listed with all pieces below it. Only
    white space is lost.
    """
    spaced = sum(char > "\u0e00" for char in text) * 4 < len(text)
    size = PIECE_CHARS if spaced else DENSE_PIECE_CHARS
    sections = _sections(text) if headings else iter([((), text)])
    return [DocumentPiece(above, part) for above, body in sections for part in _parts(body, size)]


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    headings: list[tuple[int, str]] = []
    body: list[str] = []
    in_fence = False
    for line in text.splitlines():
        in_fence ^= line.lstrip().startswith("```")
        heading = None if in_fence else _HEADING.match(line)
        if heading is None:
            body.append(line)
            continue
        yield tuple(title for _, title in headings), "\n".join(body)
        level, title = len(heading[1]), heading[2][:200]
        headings = [*(outer for outer in headings if outer[0] < level), (level, title)]
        body = [line]
    yield tuple(title for _, title in headings), "\n".join(body)


def _parts(body: str, size: int) -> Iterator[str]:
    rest = body.strip()
    while len(rest) > size:
        # in the second half, so that no piece is very short
        cuts = (at + len(end) for end in _BREAKS if (at := rest.rfind(end, size // 2, size)) > 0)
        cut = next(cuts, size)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    if rest:
        yield rest

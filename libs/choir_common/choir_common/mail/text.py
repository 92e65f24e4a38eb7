"""Convert untrusted text, of messages and of servers' errors, into plain, bounded text. Pure."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, zero-width characters and those that reverse the text direction."""
_GAPS = re.compile(r"[ \t\r\f\v]*\n(?:[ \t\r\f\v]*\n)+")
# Elements with text that a mail program does not show.
_UNSEEN = {"script", "style", "head", "title", "template", "noscript", "svg", "object"}
_BREAKING = {
    *(
        "address",
        "article",
        "blockquote",
        "br",
        "div",
        "dl",
        "dt",
        "dd",
        "footer",
        "form",
        "h1",
        "h2",
    ),
    *(
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ),
}
MAX_LINK = 300


def one_line(text: str, longest: int) -> str:
    """Return `text` on one line, without control characters, truncated to `longest` characters."""
    plain = " ".join(_CONTROL.sub("", text).split())
    return plain if len(plain) <= longest else f"{plain[:longest]}…"


def clean_text(text: str) -> str:
    """Return `text` without control characters, lines ended by line feeds, empty lines collapsed to one."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return _GAPS.sub("\n\n", _CONTROL.sub("", unified)).strip()


def quote(text: str) -> str:
    """Return `text` with `> ` before every line, so that no line can be mistaken for other output."""
    return "\n".join(f"> {line}" for line in text.split("\n"))


def html_to_text(html: str, *, mark_quotations: bool = False) -> str:
    """Return the text of an HTML message, with the targets of its links.

    With `mark_quotations` each line of a `blockquote` begins with `> `, as in plain text.
    """
    reader = _TextOfHtml()
    reader.feed(html)
    reader.close()
    if mark_quotations:
        return clean_text(_marked(reader.pieces, reader.quotations))
    return clean_text("".join(reader.pieces))


def _marked(pieces: Sequence[str], depths: Sequence[int]) -> str:
    """Return the text with `> ` before each line inside quotations; `depths` has one number per piece."""
    lines: list[tuple[int, str]] = [(0, "")]
    for piece, depth in zip(pieces, depths, strict=True):
        first, *others = piece.split("\n")
        # A line is as deep as its first visible text.
        at, line = lines[-1]
        lines[-1] = (at if line.strip() else depth, line + first)
        lines += [(depth, other) for other in others]
    return "\n".join(f"{'> ' * min(depth, 1)}{line}" for depth, line in lines)


class _TextOfHtml(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.quotations: list[int] = []
        """For each piece, in how many quotations it is."""
        self._depth = 0
        self._unseen = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen += 1
        if tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        if tag in _BREAKING:
            self._add("\n- " if tag == "li" else "\n")
        if tag in ("td", "th"):
            self._add("\t")
        if tag == "blockquote":
            self._depth += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BREAKING:
            self._add("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        if tag == "a" and self._links:
            target = self._links.pop()
            # Show the target: the link's text may name another address.
            if target.startswith(("http://", "https://", "mailto:")):
                self._add(f" <{one_line(target, MAX_LINK)}>")
        if tag == "blockquote":
            self._depth = max(0, self._depth - 1)
        if tag in _BREAKING:
            self._add("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._add(data if data.strip() else " ")

    def _add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.quotations.append(self._depth)

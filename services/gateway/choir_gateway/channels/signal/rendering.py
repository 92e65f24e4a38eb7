"""Rendering of marked text for the REST API's mode `styled`, and its splitting. Pure.

The REST API turns `**bold**`, `*italic*`, `~strike~` and `` `code` `` into Signal's styles; a backslash
before a symbol makes it literal. Its parser misreads symbols that touch each other, and knows no literal
backslash before a symbol, so a mark that would be misread is left out. Choir's own texts have a bar at the
beginning of each line, which no text of an agent can have.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.styled import Styled, TextRun, plain_text

LIMIT = 2_000
"""Maximum length of a message, in UTF-16 units and in bytes of UTF-8.

signal-cli sends longer texts as an attachment, and clients show only the beginning.
"""
OWN_BAR, OTHER_BAR = "▍", "|"
SPECIAL = re.compile(r"[*~`|]")
CODE_TAGS = frozenset({"pre", "code"})


@dataclass(frozen=True, slots=True)
class SignalText:
    """A text for a call, and whether it contains styles."""

    text: str
    is_styled: bool


def split_styled(runs: Styled, limit: int = LIMIT) -> Sequence[Styled]:
    """Split a text into messages of at most `limit` units and bytes."""
    return [piece for part in split_text(_show_links(runs), limit) for piece in _fit(part, limit)]


def render(runs: Styled) -> SignalText:
    """Return the text of a call; without marks it is the text as it is."""
    runs = tuple(_add_bars(runs))
    out, is_styled = "", False
    for run in runs:
        opening = _opening(run)
        text = SPECIAL.sub(r"\\\g<0>", run.text)
        if opening and _may_begin(out, opening) and _may_enclose(run.text, opening):
            out += f"{opening}{text}{opening[::-1]}"
            is_styled = True
        else:
            out += text
    return SignalText(out if is_styled else plain_text(runs), is_styled)


def _fit(part: Styled, limit: int) -> Sequence[Styled]:
    """Split a part again if it has too many bytes."""
    excess = len(plain_text(tuple(_add_bars(part))).encode()) / limit
    length = utf16_length(plain_text(part))
    if excess <= 1 or length <= 1:
        return [part]
    smaller = max(int(length / excess * 0.95), 1)
    return [text for piece in split_text(part, smaller) for text in _fit(piece, limit)]


def _show_links(runs: Styled) -> Styled:
    """Write the address after the text of each link, since Signal links addresses only."""
    pieces: list[TextRun] = []
    for place, run in enumerate(runs):
        link = next((mark for mark in run.marks if mark.tag == "a"), None)
        pieces.append(replace(run, marks=tuple(mark for mark in run.marks if mark.tag != "a")))
        following = runs[place + 1].marks if place + 1 < len(runs) else ()
        if link is not None and link not in following:
            text = "".join(it.text for it in runs if link in it.marks)
            if text != link.detail:
                pieces.append(TextRun(f" ({link.detail})"))
    return tuple(pieces)


def _add_bars(runs: Styled) -> Iterator[TextRun]:
    """Yield the runs with a bar before each line of Choir's own; other bars become another character."""
    is_at_start = True
    for run in runs:
        text = run.text.replace("\r\n", "\n").replace("\r", "\n").replace(OWN_BAR, OTHER_BAR)
        if any(mark.tag == "blockquote" for mark in run.marks):
            bar = f"{OWN_BAR} "
            body = text.removesuffix("\n")
            ending = text[len(body) :]
            text = (bar if is_at_start else "") + body.replace("\n", f"\n{bar}") + ending
        yield replace(run, text=text)
        is_at_start = text.endswith("\n")


def _opening(run: TextRun) -> str:
    """Return the symbols before a run; those after it are the same in the opposite order."""
    tags = {mark.tag for mark in run.marks}
    if tags & CODE_TAGS:
        return "`"
    stars = ("**" if "b" in tags else "") + ("*" if "i" in tags else "")
    return ("~" if "s" in tags else "") + stars


def _may_begin(out: str, opening: str) -> bool:
    """Return whether symbols are read as such after the text before them."""
    return not out.endswith("\\") and not (opening.startswith("*") and out.endswith("*"))


def _may_enclose(text: str, opening: str) -> bool:
    """Return whether symbols are read as such around a text."""
    hides_closing = text.endswith("\\") or (opening.endswith("*") and text.endswith("*"))
    return bool(text.strip()) and not hides_closing

"""Rendering of marked text for WhatsApp, and its splitting. Pure; called by `parts`.

WhatsApp has no escapes and formats within a line only. A literal symbol that would have an effect is replaced
by a character that looks like it. Quotations are for Choir's own words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.styled import (
    Styled,
    TextMark,
    TextRun,
    count_shared_marks,
    plain_text,
)

LIMIT = 4096
"""Maximum length of a text message."""
BODY_LIMIT = 1024
"""Maximum length of a text with buttons, and of a caption."""

SYMBOLS = {"b": "*", "i": "_", "s": "~"}
LOOKALIKES = {"*": "\u2217", "_": "\u02cd", "~": "\u223c", "`": "\u02cb", ">": "\u203a"}
"""Characters that look like WhatsApp's symbols and have no effect."""
# Literal symbols that may have an effect, until all of their line is known.
CANDIDATES = {"*": "\ue000", "_": "\ue001", "~": "\ue002"}
URL = re.compile(r"https?://[^\s<>`*\\|\[\]]+")
# A symbol may begin a mark after nothing, a blank or punctuation, and before anything but a blank.
OPENER = re.compile(r"(?<![^\W_])[*_~](?!\s)")
QUOTE = re.compile(r"^([ \t]*)>", re.MULTILINE)
CODE_TAGS = frozenset({"pre", "code"})
FENCE = "```"


def split_rendered(runs: Styled, limit: int) -> Sequence[str]:
    """Split a text into messages of at most `limit` characters, each rendered for WhatsApp."""
    return [text for part in split_text(_show_links(runs), limit) for text in _fit(part, limit)]


def render(runs: Styled) -> str:
    """Return WhatsApp's form of a text; marks are closed in the reverse order of opening."""
    out = ""
    open_marks: list[TextMark] = []
    ineffective = set[TextMark]()
    pieces = list(_split_lines(runs))
    for place, run in enumerate(pieces):
        marks = [mark for mark in run.marks if mark not in ineffective]
        shared_count = count_shared_marks(open_marks, marks)
        out = _close(out, open_marks[shared_count:])
        opened = [it for it in marks[shared_count:] if _may_begin(out, pieces[place:], it)]
        ineffective |= set(marks[shared_count:]) - set(opened)
        blank = run.text[: len(run.text) - len(run.text.lstrip(" "))] if opened else ""
        out += blank + "".join(SYMBOLS.get(mark.tag, "") for mark in opened)
        open_marks = [*open_marks[:shared_count], *opened]
        out += _content(run, out.endswith("\n") or not out).removeprefix(blank)
    return "\n".join(_settle(line) for line in _close(out, open_marks).split("\n"))


def _settle(line: str) -> str:
    """Replace the candidates of a line: one that is alone has no effect and stays as written."""
    for symbol, candidate in CANDIDATES.items():
        is_alone = line.count(symbol) + line.count(candidate) == 1
        line = line.replace(candidate, symbol if is_alone else LOOKALIKES[symbol])
    return line


def _fit(part: Styled, limit: int) -> Sequence[str]:
    """Render a part; split it again if its marks make it too long."""
    rendered = render(part)
    excess = utf16_length(rendered) / limit
    if excess <= 1:
        return [rendered]
    smaller = max(int(utf16_length(plain_text(part)) / excess * 0.95), 1)
    return [text for piece in split_text(part, smaller) for text in _fit(piece, limit)]


def _show_links(runs: Styled) -> Styled:
    """Write the address after the text of each link, since WhatsApp links addresses only."""
    pieces: list[TextRun] = []
    for place, run in enumerate(runs):
        link = next((mark for mark in run.marks if mark.tag == "a"), None)
        marks = tuple(mark for mark in run.marks if mark.tag != "a")
        pieces.append(replace(run, marks=marks))
        following = runs[place + 1].marks if place + 1 < len(runs) else ()
        if link is not None and link not in following:
            text = "".join(it.text for it in runs if link in it.marks)
            if text != link.detail:
                pieces.append(TextRun(f" ({link.detail})"))
    return tuple(pieces)


def _split_lines(runs: Styled) -> Iterator[TextRun]:
    """Yield the runs cut at the ends of lines, which have no marks that must end with the line."""
    for run in runs:
        text = run.text.replace("\r\n", "\n").replace("\r", "\n")
        if any(mark.tag in CODE_TAGS for mark in run.marks):
            yield replace(run, text=text)
            continue
        lasting = tuple(mark for mark in run.marks if mark.tag not in SYMBOLS)
        for piece in re.split("(\n)", text):
            if piece:
                yield TextRun(piece, lasting if piece == "\n" else run.marks)


def _may_begin(out: str, following: Sequence[TextRun], mark: TextMark) -> bool:
    """Return whether WhatsApp would recognise a mark here: no letter may stand at its outer sides."""
    if mark.tag not in SYMBOLS:
        return True
    span = 0
    while span < len(following) and mark in following[span].marks:
        span += 1
    text = "".join(run.text for run in following[:span])
    after = following[span].text[:1] if span < len(following) else ""
    return bool(text.strip()) and not out[-1:].isalnum() and not after.isalnum()


def _close(out: str, marks: Sequence[TextMark]) -> str:
    symbols = "".join(SYMBOLS.get(mark.tag, "") for mark in reversed(marks))
    if not symbols:
        return out
    text = out.rstrip(" ")
    return text + symbols + out[len(text) :]


def _content(run: TextRun, begins_line: bool) -> str:
    tags = {mark.tag for mark in run.marks}
    if tags & CODE_TAGS:
        return _fence(run.text, is_block="pre" in tags)
    inner = "".join(SYMBOLS[tag] for tag in tags if tag in SYMBOLS)
    text = _disarm(run.text, inner)
    if "blockquote" in tags:
        return f"> {text}" if begins_line else text
    return QUOTE.sub(rf"\1{LOOKALIKES['>']}", text) if begins_line else text


def _fence(text: str, *, is_block: bool) -> str:
    if not is_block and "`" not in text and "\n" not in text:
        return f"`{text}`"
    text = text.replace(FENCE, LOOKALIKES["`"] * 3)
    gap = "\n" if text.startswith("`") or text.endswith("`") else ""
    return f"{FENCE}{gap}{text}{gap}{FENCE}"


def _disarm(text: str, inner: str) -> str:
    """Mark literal symbols outside of addresses; `inner` are those of the marks around the text."""
    out: list[str] = []
    at = 0
    for url in URL.finditer(text):
        out += [_disarm_piece(text[at : url.start()], inner), url.group()]
        at = url.end()
    return "".join([*out, _disarm_piece(text[at:], inner)])


def _disarm_piece(text: str, inner: str) -> str:
    text = OPENER.sub(lambda symbol: CANDIDATES[symbol.group()], text.replace("`", LOOKALIKES["`"]))
    for symbol in inner:
        text = text.replace(symbol, CANDIDATES[symbol])
    return text

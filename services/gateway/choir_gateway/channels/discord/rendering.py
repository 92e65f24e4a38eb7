"""Rendering of marked text as Discord's Markdown, and its splitting. Pure; called by `parts` and `sender`.

Everything that an agent wrote is escaped outside code, so that only its marks have an effect. Quotations are
for Choir's own words.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.styled import (
    Styled,
    TextMark,
    TextRun,
    count_shared_marks,
    plain_text,
)

LIMIT = 2000
"""Maximum length of a message, after rendering."""
MAX_LINK = 500
"""A longer address is shown as text, which can be split."""

# An address without characters that could open a mark; Discord makes it a link by itself.
URL = re.compile(r"https?://[^\s<>`*\\|\[\]]+")
SPECIAL = re.compile(r"[\\*_~`|<>\[\]#]|(?m:^[ \t]*-(?=#))")
LANGUAGE = re.compile(r"[^A-Za-z0-9_+.#-]")
LINK_SCHEMES = ("http://", "https://")
# Discord does not parse a code block without a visible character, and would look for its end elsewhere.
NOTHING = "\u200b"
SIMPLE = {"b": "**", "i": "*", "s": "~~"}


def split_markdown(runs: Styled, limit: int = LIMIT) -> Sequence[str]:
    """Split a text into messages of at most `limit` characters, each rendered as Discord's Markdown.

    The cuts are those of `split_text`; code blocks are closed at a cut and opened again.
    """
    return [
        text for part in split_text(_show_long_links(runs), limit) for text in _fit(part, limit)
    ]


def to_markdown(runs: Styled) -> str:
    """Return Discord's Markdown; marks are closed in the reverse order of opening."""
    out = ""
    open_marks: list[TextMark] = []
    closings: list[str] = []
    for run in runs:
        shared_count = count_shared_marks(open_marks, run.marks)
        out += "".join(reversed(closings[shared_count:]))
        del closings[shared_count:]
        for mark in run.marks[shared_count:]:
            begin, end = _delimiters(mark, run.text)
            out += f"{_separator(out, mark)}{begin}"
            closings.append(end)
        open_marks = list(run.marks)
        out += _content(run)
    return out + "".join(reversed(closings))


def _fit(part: Styled, limit: int) -> Sequence[str]:
    """Render a part; split it again if marks and escapes make it too long."""
    rendered = to_markdown(part)
    excess = utf16_length(rendered) / limit
    if excess <= 1:
        return [rendered]
    text = plain_text(part)
    length = utf16_length(text)
    # two units: one character may take them
    smaller = max(int(length / excess * 0.95), 2)
    if smaller >= length:
        # the marks alone are too long
        return [to_markdown((TextRun(text),))]
    return [text for piece in split_text(part, smaller) for text in _fit(piece, limit)]


def _show_long_links(runs: Styled) -> Styled:
    pieces: list[TextRun] = []
    for run in runs:
        long_links = [mark for mark in run.marks if mark.tag == "a" and len(mark.detail) > MAX_LINK]
        if not long_links:
            pieces.append(run)
            continue
        marks = tuple(mark for mark in run.marks if mark not in long_links)
        pieces += [replace(run, marks=marks), TextRun(f" ({long_links[0].detail})")]
    return tuple(pieces)


def _content(run: TextRun) -> str:
    tags = {mark.tag for mark in run.marks}
    text = run.text.replace("\r\n", "\n").replace("\r", "\n")
    if tags & {"pre", "code"}:
        # Adjacent backticks could end the code.
        inert = re.sub("`(?=`)", f"`{NOTHING}", text)
        return inert if inert.strip() else inert + NOTHING
    escaped = _escape(text)
    if "blockquote" in tags:
        lines = escaped.removesuffix("\n").split("\n")
        return "\n".join(f"> {line}" for line in lines) + ("\n" if text.endswith("\n") else "")
    return escaped


def _escape(text: str) -> str:
    out: list[str] = []
    at = 0
    for url in URL.finditer(text):
        out += [SPECIAL.sub(_add_backslash, text[at : url.start()]), url.group()]
        at = url.end()
    return "".join([*out, SPECIAL.sub(_add_backslash, text[at:])])


def _add_backslash(special: re.Match[str]) -> str:
    return f"{special.group()[:-1]}\\{special.group()[-1]}"


def _delimiters(mark: TextMark, text: str) -> tuple[str, str]:
    """Return what begins and what ends a mark whose first text is `text`."""
    match mark.tag:
        case "pre":
            return f"```{LANGUAGE.sub('', mark.detail)[:30]}\n", "\n```"
        case "code":
            return ("`` ", " ``") if "`" in text else ("`", "`")
        case "a":
            begin = "[" if mark.detail.lower().startswith(LINK_SCHEMES) else ""
            return begin, _link_end(mark.detail)
        case "blockquote":
            return "", ""
        case tag:
            return SIMPLE[tag], SIMPLE[tag]


def _separator(out: str, mark: TextMark) -> str:
    """Return what must stand between the text so far and a mark."""
    match mark.tag:
        case "blockquote":
            return "" if not out or out.endswith("\n") else "\n"
        case "pre" | "code":
            return NOTHING if out.endswith("`") else ""
        case "a":
            return ""
        case tag:
            # Adjacent marks of the same kind would read as another mark.
            return NOTHING if out.endswith(SIMPLE[tag][0]) else ""


def _link_end(address: str) -> str:
    if not address.lower().startswith(LINK_SCHEMES):
        return f" ({_escape(address)})"
    # Angle brackets: Discord makes no preview of the address.
    for character in " \t\n<>()\\`":
        address = address.replace(character, f"%{ord(character):02X}")
    return f"](<{address}>)"

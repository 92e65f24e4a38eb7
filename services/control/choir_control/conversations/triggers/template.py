"""Texts of triggers: a template with places for values from outside. Pure.

A template is no program: a place is a path into the content, and nothing else. A value is put between marks,
is cut to a length, and cannot begin a line: so it cannot pass for words of the template or remarks of Choir.
"""

import re
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from choir_common.wire.prompt_marks import VALUE_CLOSE, VALUE_OPEN

MAX_VALUE = 8_000
"""Characters of one value."""
MAX_TEXT = 16_000
"""Characters of a whole text."""
CUT = " … (cut)"
TOO_DEEP = "(nested too deeply)"
WHOLE = "."
INDENT = "\n    "
PLACE = re.compile(r"\{\{\s*([^{}\s]{1,200})\s*\}\}")
# Line breaks of every kind, so that each further line of a value is indented.
_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Control characters, and those that change the direction of text or are invisible.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
    "|[\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A text of a trigger, and the places for which there was no value."""

    text: str
    missing: tuple[str, ...]


def render_text(template: str, content: JsonValue) -> RenderedText:
    """Return the template with the values of `content`; a place without a value stays empty."""
    missing: list[str] = []
    used = 0

    def value_of(match: re.Match[str]) -> str:
        nonlocal used
        path = match[1]
        value = find_value(content, path)
        if value is None:
            missing.append(path)
            return ""
        piece = _shown(value, min(MAX_VALUE, max(0, MAX_TEXT - used)))
        used += len(piece)
        return piece

    text = PLACE.sub(value_of, template)
    names = tuple(dict.fromkeys(missing))
    if names:
        text += f"\n\n[Choir] Places of the template without a value: {', '.join(names)}."
    return RenderedText(text, names)


def find_value(content: JsonValue, path: str) -> JsonValue:
    """Return the value at a path such as `a.b.0`, or None."""
    if path == WHOLE:
        return content
    value = content
    for part in path.split("."):
        match value:
            case dict():
                value = value.get(part)
            case list() if part.isascii() and part.isdigit() and int(part[:9]) < len(value):
                value = value[int(part[:9])]
            case _:
                return None
    return value


def _json_text(value: JsonValue) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return TOO_DEEP


def _shown(value: JsonValue, limit: int) -> str:
    text = value if isinstance(value, str) else _json_text(value)
    text = text.replace(VALUE_OPEN, "[").replace(VALUE_CLOSE, "]")
    # Cut first: the replacements below may work on a megabyte otherwise.
    if len(text) > limit:
        text = text[:limit] + CUT
    text = INDENT.join(_HIDDEN.sub("", line) for line in _BREAK.split(text))
    return f"{VALUE_OPEN}{text}{VALUE_CLOSE}"

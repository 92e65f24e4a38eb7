"""Places in a JSON text: the offset and the line of the value at a path. Pure."""

import json
from collections.abc import Sequence

_WHITESPACE = " \t\r\n"


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line number (from 1) of the value at `path`, or of its deepest existing parent.

    None if the text is not JSON.
    """
    at = offset_of(text, path)
    return None if at is None else text.count("\n", 0, at) + 1


def offset_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the offset of the value at `path`, or of its deepest existing parent; None if it is not JSON."""
    decoder = json.JSONDecoder()
    try:
        at = _skip(text, 0)
        for step in path:
            child = _child(decoder, text, at, step)
            if child is None:
                break
            at = child
    except (ValueError, IndexError, RecursionError):
        return None
    return at


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at


def _child(decoder: json.JSONDecoder, text: str, at: int, step: str | int) -> int | None:
    """Return the offset of the value under `step` in the object or array at offset `at`, if it is
    there."""
    closing = {"{": "}", "[": "]"}.get(text[at])
    place, index = _skip(text, at + 1), 0
    while closing is not None and text[place] != closing:
        key: str | int = index
        if closing == "}":
            key, place = decoder.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        if key == step:
            return place
        _, place = decoder.raw_decode(text, place)
        place = _skip(text, place)
        place = _skip(text, place + 1) if text[place] == "," else place
        index += 1
    return None

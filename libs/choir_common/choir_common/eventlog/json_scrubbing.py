"""Conversion of any JSON into storable JSON: Postgres rejects some characters from models and tools. Pure."""

from collections.abc import Iterable

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

MAX_INT = 2**63 - 1
MAX_DEPTH = 100
"""Maximum nesting of objects and lists; the JSON libraries on an event's path fail at 200 or more."""


def needs_scrubbing(body: str) -> bool:
    """Return whether rendered JSON contains a NUL, which Postgres rejects in text and jsonb."""
    return "\\u0000" in body


def scrub_json(value: JsonObject) -> JsonObject:
    """Return a copy with NUL and lone surrogates replaced, and integers beyond 64 bits as text."""
    return {_text(key): _value(item) for key, item in value.items()}


def _value(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _text(value)
        case dict():
            return scrub_json(value)
        case list():
            return [_value(item) for item in value]
        case int() if not -MAX_INT <= value <= MAX_INT:
            return str(value)
        case _:
            return value


def _text(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def is_too_deep(value: JsonValue) -> bool:
    """Return whether JSON is nested deeper than an event allows."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(value: JsonValue) -> Iterable[JsonValue]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()

"""Make any JSON storable: what a model or a tool says may hold characters no database takes.

Called by `session_log` before an event is linked; pure.
"""

from collections.abc import Iterable

from pydantic import JsonValue

from choir_common.wire.json import JsonObject

LARGEST = 2**63 - 1
MAX_DEPTH = 100
"""Levels of objects and lists; writers and readers on an event's way give up at 200 and more."""


def needs_scrubbing(body: str) -> bool:
    """Tell whether rendered JSON holds a NUL, which Postgres refuses in text and jsonb."""
    return "\\u0000" in body


def scrub(value: JsonObject) -> JsonObject:
    """Return the same object with NUL and lone surrogates replaced, and huge numbers as text."""
    return {_text(key): _value(item) for key, item in value.items()}


def _value(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _text(value)
        case dict():
            return scrub(value)
        case list():
            return [_value(item) for item in value]
        case int() if not -LARGEST <= value <= LARGEST:
            return str(value)
        case _:
            return value


def _text(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def too_deep(value: JsonValue) -> bool:
    """Tell whether JSON is nested deeper than an event can carry."""
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

"""Make any JSON storable: what a model or a tool says may hold characters no database takes.

Called by `session_log` before an event is linked; pure.
"""

from pydantic import JsonValue

from choir_common.wire.json import JsonObject

LARGEST = 2**63 - 1


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

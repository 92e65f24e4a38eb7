"""Extraction of message fields that only the model's provider understands. Pure.

Gemini signs tool calls (`extra_content`), DeepSeek requires its `reasoning_content`, OpenRouter its
`reasoning_details`: a later request without them is refused. Every unknown field is therefore stored,
whatever its name.
"""

from collections.abc import Mapping, Sequence

import orjson
from pydantic import JsonValue

from choir_common.eventlog.json_scrubbing import is_too_deep
from choir_common.wire.model import JsonObject

MAX_BYTES = 500_000
"""Limit for one message; reasoning takes tens of kilobytes. A cut signature is useless, so it is all or
nothing."""
# Fields that the API defines. The last three belong to responses and are not part of a request. Annotations
# go back: with them OpenRouter does not parse, and charge for, a PDF again.
_MESSAGE = frozenset({"role", "content", "tool_calls", "refusal", "audio", "function_call"})
_WANTED_EMPTY = frozenset({"reasoning_content"})
"""DeepSeek requires it back from each step with calls, also where the model did not think."""
_CALL = frozenset({"type", "index", "function"})
_FUNCTION = frozenset({"name", "arguments"})


def message_fields(message: Mapping[str, JsonValue], content: JsonValue) -> JsonObject:
    """Return the unknown fields of a message, and `content` if it has parts other than text."""
    fields = _unknown(message, _MESSAGE)
    if isinstance(content, list) and any(_is_no_text(part) for part in content):
        fields["content"] = content
    return _bounded(fields)


def call_fields(call: Mapping[str, JsonValue]) -> JsonObject:
    """Return the unknown fields of a tool call, and its id, because other fields may refer to it."""
    fields = _unknown(call, _CALL)
    function = call.get("function")
    function_fields = _unknown(function, _FUNCTION) if isinstance(function, dict) else {}
    if function_fields:
        fields["function"] = function_fields
    return _bounded(fields)


def native_fields(api: str, content: Sequence[JsonObject]) -> JsonObject:
    """Return the content of an output as the API sent it, as fields of the message."""
    return _bounded({api: {"content": [*content]}})


def native_content(message: JsonObject, api: str) -> Sequence[JsonValue]:
    """Return the content that `native_fields` stored with a message of the history."""
    match message.get(api):
        case {"content": list(content)}:
            return content
    return ()


def has_fields(message: JsonObject, calls: Sequence[JsonObject]) -> bool:
    """Return whether there are fields to store; an id alone is not stored."""
    return bool(message) or any(fields.keys() - {"id"} for fields in calls)


def _unknown(fields: Mapping[str, JsonValue], known_names: frozenset[str]) -> JsonObject:
    # Providers send empty defaults, and some refuse to receive them.
    empty: tuple[JsonValue, ...] = (None, "", [], {})
    return {
        name: value
        for name, value in fields.items()
        if name not in known_names
        and (value not in empty or (name in _WANTED_EMPTY and value == ""))
    }


def _is_no_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") != "text"


def _bounded(fields: JsonObject) -> JsonObject:
    """Return the fields, or none if they are too large or too deep for an event."""
    try:
        fits = not is_too_deep(fields) and len(orjson.dumps(fields)) <= MAX_BYTES
    except TypeError:  # a number that is too large, or invalid text
        fits = False
    return fields if fits else {}

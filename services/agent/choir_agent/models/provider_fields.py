"""Collect the fields of an assistant message that only its provider understands: pure.

Called by `completion`. Gemini signs tool calls (`extra_content`), DeepSeek wants its `reasoning_content`,
OpenRouter its `reasoning_details`: a later request without them is refused. So every field that is not
known is kept, whatever its name.
"""

from collections.abc import Mapping, Sequence

import orjson
from pydantic import JsonValue

from choir_agent.log.storable import too_deep
from choir_common.wire.json import JsonObject

MAX_BYTES = 500_000
"""Of one message; reasoning takes tens of kilobytes. Cut signatures are worthless, so it is all or none."""
# What the interface defines. The last four describe an answer and are no part of a request.
_MESSAGE = frozenset(
    {"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call"}
)
_CALL = frozenset({"type", "index", "function"})
_FUNCTION = frozenset({"name", "arguments"})


def message_fields(message: Mapping[str, JsonValue], content: JsonValue) -> JsonObject:
    """Return the unknown fields of a message; content in parts that are not all text counts as one."""
    fields = _unknown(message, _MESSAGE)
    if isinstance(content, list) and any(_is_no_text(part) for part in content):
        fields["content"] = content
    return _bounded(fields)


def call_fields(call: Mapping[str, JsonValue]) -> JsonObject:
    """Return the unknown fields of a tool call, and its id, to which other fields may refer."""
    fields = _unknown(call, _CALL)
    function = call.get("function")
    beside = _unknown(function, _FUNCTION) if isinstance(function, dict) else {}
    if beside:
        fields["function"] = beside
    return _bounded(fields)


def have_content(message: JsonObject, calls: Sequence[JsonObject]) -> bool:
    """Tell whether there is anything to keep; an id alone is not worth it."""
    return bool(message) or any(fields.keys() - {"id"} for fields in calls)


def _unknown(given: Mapping[str, JsonValue], known: frozenset[str]) -> JsonObject:
    # providers fill in what they have nothing to say about, and some refuse to read it
    empty: tuple[JsonValue, ...] = (None, "", [], {})
    return {
        name: value for name, value in given.items() if name not in known and value not in empty
    }


def _is_no_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") != "text"


def _bounded(fields: JsonObject) -> JsonObject:
    try:
        fits = not too_deep(fields) and len(orjson.dumps(fields)) <= MAX_BYTES
    except TypeError:  # a number that is too large, or text that is none
        fits = False
    return fields if fits else {}

"""Truncate tool output to a size that fits a prompt and the log. Pure."""

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject

_SHORTEST = 200


def fits_limit(output: JsonObject, max_bytes: int) -> bool:
    """Return whether `output`, as JSON, is within `max_bytes`."""
    return len(orjson.dumps(output)) <= max_bytes


def truncate_output(output: JsonObject, max_bytes: int) -> JsonObject:
    """Return `output` with its longest texts and lists truncated until it fits into `max_bytes` of JSON."""
    limit = max_bytes
    fitting = output
    while not fits_limit(fitting, max_bytes):
        # Halve the limit of each value until the whole fits.
        limit //= 2
        if limit < _SHORTEST:
            start = orjson.dumps(output)[: max_bytes // 2].decode("utf-8", "replace")
            return {"truncated": True, "text": start}
        fitting = {key: _cut(value, limit) for key, value in output.items()}
        fitting["truncated"] = True
    return fitting


def truncate_middle(text: str, limit: int) -> str:
    """Return a text's beginning and end: an error message is usually in one of them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _cut(value: JsonValue, limit: int) -> JsonValue:
    match value:
        case str():
            return truncate_middle(value, limit)
        case list():
            return _cut_list(value, limit)
        case dict():
            return {key: _cut(item, limit) for key, item in value.items()}
    return value


def _cut_list(items: list[JsonValue], limit: int) -> list[JsonValue]:
    """Keep the first items: tools list the most important ones first."""
    items_so_far: list[JsonValue] = []
    room = limit
    for item in items:
        shorter = _cut(item, limit)
        room -= len(orjson.dumps(shorter))
        if items_so_far and room < 0:
            break
        items_so_far.append(shorter)
    return items_so_far

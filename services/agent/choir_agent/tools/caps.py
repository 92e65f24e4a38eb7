"""Cut a tool's output to a size that a prompt and the log can carry: pure (spec 8.5)."""

import orjson
from pydantic import JsonValue

from choir_common.wire.json import JsonObject

MAX_BYTES = 120_000
_SHORTEST = 200


def capped(output: JsonObject) -> JsonObject:
    """Return `output`, with its longest texts cut until it fits into MAX_BYTES of JSON."""
    limit = MAX_BYTES
    fitting = output
    while len(orjson.dumps(fitting)) > MAX_BYTES:
        limit //= 2
        if limit < _SHORTEST:
            return {
                "truncated": True,
                "text": orjson.dumps(output)[:MAX_BYTES].decode("utf-8", "replace"),
            }
        fitting = {key: _cut(value, limit) for key, value in output.items()}
        fitting["truncated"] = True
    return fitting


def _cut(value: JsonValue, limit: int) -> JsonValue:
    match value:
        case str():
            return value if len(value) <= limit else value[:limit] + "…"
        case list():
            return [_cut(item, limit) for item in value]
        case dict():
            return {key: _cut(item, limit) for key, item in value.items()}
    return value

"""Render tools as the model's function list. Pure.

Every request contains this list. To save tokens, the schemas omit limits that calls rarely reach: lengths,
counts, and `additionalProperties: false`. The arbiter validates calls against the full schema, and an error
names the violated limit.
"""

from collections.abc import Iterable

import orjson
from pydantic import JsonValue

from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.schema_editing import edit_schemas
from choir_common.wire.model import JsonObject

_BOUNDS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"})
_TRIVIAL_MINIMA = (0, 1)


def model_name(name: str) -> str:
    """Return a tool's name as the model sees it."""
    return name.replace(".", "_")


def model_view(manifests: Iterable[ToolManifest]) -> bytes:
    """Return tools as a JSON list for a model request."""
    return orjson.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": model_name(manifest.name),
                    "description": manifest.llm.description,
                    "parameters": compact_schema(manifest.llm.parameters),
                },
            }
            for manifest in manifests
        ]
    )


def compact_schema(schema: JsonObject) -> JsonObject:
    """Return a JSON Schema without the limits that a model need not know."""
    return edit_schemas(schema, _without_bounds)


def _without_bounds(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if not _is_bound(key, value)}


def _is_bound(key: str, value: JsonValue) -> bool:
    if key == "additionalProperties":
        return value is False
    return key in _BOUNDS or (key == "minimum" and value in _TRIVIAL_MINIMA)

"""Write tools as the model sees them: pure. Called by `registry`.

Every request carries this, so bounds that hardly any call comes near are left out of the schemas: lengths,
counts, and that further properties are refused. The arbiter checks calls against the whole schema, and a
refusal names what did not fit.
"""

from collections.abc import Iterable

import orjson
from pydantic import JsonValue

from choir_agent.tools.manifest import ToolManifest
from choir_common.wire.json import JsonObject

_BOUNDS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"})
_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
"""Keywords whose keys are names, not keywords."""
_AS_GIVEN = frozenset({"enum", "const", "default", "examples", "required"})
"""Keywords whose values are data."""
_TRIVIAL_MINIMA = (0, 1)


def model_name_of(name: str) -> str:
    """Return the name a model knows a tool by."""
    return name.replace(".", "_")


def model_view(manifests: Iterable[ToolManifest]) -> bytes:
    """Return tools as a JSON list for a request."""
    return orjson.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": model_name_of(manifest.name),
                    "description": manifest.llm.description,
                    "parameters": short_schema(manifest.llm.parameters),
                },
            }
            for manifest in manifests
        ]
    )


def short_schema(schema: JsonObject) -> JsonObject:
    """Return a JSON Schema without the bounds that a model need not know beforehand."""
    return {
        key: _shortened(key, value) for key, value in schema.items() if not _is_bound(key, value)
    }


def _is_bound(key: str, value: JsonValue) -> bool:
    if key == "additionalProperties":
        return value is False
    return key in _BOUNDS or (key == "minimum" and value in _TRIVIAL_MINIMA)


def _shortened(key: str, value: JsonValue) -> JsonValue:
    if key in _AS_GIVEN:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {
            name: short_schema(inner) if isinstance(inner, dict) else inner
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [short_schema(inner) if isinstance(inner, dict) else inner for inner in value]
    return short_schema(value) if isinstance(value, dict) else value

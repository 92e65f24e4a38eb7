"""Changes of all schemas inside of a JSON Schema. Pure."""

from collections.abc import Callable

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
"""Keywords whose keys are names, not keywords."""
_AS_GIVEN = frozenset({"enum", "const", "default", "examples", "required"})
"""Keywords whose values are data."""

EditSchema = Callable[[JsonObject], JsonObject]
"""Returns one schema object changed; the schemas inside of it are edited afterwards."""


def edit_schemas(schema: JsonObject, edit: EditSchema) -> JsonObject:
    """Return a JSON Schema in which `edit` has changed every schema object, the outermost first."""
    return {key: _edit_value(key, value, edit) for key, value in edit(schema).items()}


def _edit_value(key: str, value: JsonValue, edit: EditSchema) -> JsonValue:
    if key in _AS_GIVEN:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {
            name: edit_schemas(inner, edit) if isinstance(inner, dict) else inner
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [edit_schemas(inner, edit) if isinstance(inner, dict) else inner for inner in value]
    return edit_schemas(value, edit) if isinstance(value, dict) else value

"""JSON Schema validation. Imported lazily, by `shapes` only, when it is first needed."""

import jsonschema_rs
from pydantic import JsonValue

from choir_common.wire.model import JsonObject

MAX_FAULTS = 5
MAX_FAULT_CHARS = 300


def schema_fault(schema: JsonObject) -> str | None:
    """Return why a schema is invalid, or None."""
    try:
        jsonschema_rs.Draft202012Validator(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return str(getattr(error, "message", None) or error)[:MAX_FAULT_CHARS]
    return None


def faults(schema: JsonObject, value: JsonValue) -> tuple[str, ...]:
    """Return the schema violations as text; empty if the value is valid."""
    found: list[str] = []
    for error in jsonschema_rs.Draft202012Validator(schema, offline=True).iter_errors(value):
        where = "/".join(str(part) for part in error.instance_path)
        found.append(f"{where or 'the whole'}: {error.message}"[:MAX_FAULT_CHARS])
        if len(found) == MAX_FAULTS:
            break
    return tuple(found)

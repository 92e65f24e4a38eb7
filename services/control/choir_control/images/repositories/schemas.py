"""Validity check of JSON Schemas. Imported by `contents` at its first scan: the validator takes 6 MB."""

import jsonschema_rs

from choir_common.wire.model import JsonObject

MAX_FAULT_CHARS = 300


def find_schema_fault(schema: JsonObject) -> str | None:
    """Return why a JSON Schema is invalid, or None."""
    try:
        # offline: a repository's schema must not make us read files or addresses
        jsonschema_rs.Draft202012Validator(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return str(error).splitlines()[0][:MAX_FAULT_CHARS]
    return None

"""JSON Schema (draft 2020-12): validity of schemas, and violations by values.

The validator library is imported when it is first used: it takes 6 MB, and most processes validate nothing.
Services that call this module declare `jsonschema-rs` as a dependency.
"""

from typing import TYPE_CHECKING

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_FAULTS = 5
MAX_FAULT_CHARS = 300


class SchemaValidator:
    """A compiled schema; `root` is the name of the whole value in messages."""

    def __init__(self, schema: JsonObject, root: str = "the value") -> None:
        self._validator = _compile(schema)
        self._root = root

    def violations(self, value: JsonValue) -> tuple[str, ...]:
        """Return up to five violations as text; empty if the value is valid."""
        violations: list[str] = []
        for error in self._validator.iter_errors(value):
            where = "/".join(str(part) for part in error.instance_path)
            violations.append(f"{where or self._root}: {error.message}"[:MAX_FAULT_CHARS])
            if len(violations) == MAX_FAULTS:
                break
        return tuple(violations)


def find_violations(schema: JsonObject | None, value: JsonValue) -> tuple[str, ...]:
    """Return the violations as text; empty if the value is valid or there is no schema."""
    return () if schema is None else SchemaValidator(schema).violations(value)


def find_schema_fault(schema: JsonObject) -> str | None:
    """Return why a schema is invalid, or None."""
    import jsonschema_rs  # noqa: PLC0415 - 6 MB, see above

    try:
        _compile(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        text = str(getattr(error, "message", None) or error)
        return text.splitlines()[0][:MAX_FAULT_CHARS]
    return None


def _compile(schema: JsonObject) -> "Draft202012Validator":
    import jsonschema_rs  # noqa: PLC0415 - 6 MB, see above

    # Offline: a schema from a repository or a model must not make us read files or addresses.
    return jsonschema_rs.Draft202012Validator(schema, offline=True)

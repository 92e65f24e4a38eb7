"""Validation of a skill's input and output against its schemas, if it has any.

Called by `read` and `engine`. `schemas` is imported only when a skill has a schema: the validator
takes 6
MB, and most skills have none.
"""

import importlib
from typing import Protocol, cast

from pydantic import JsonValue

from choir_common.wire.model import JsonObject


class _Schemas(Protocol):
    def schema_fault(self, schema: JsonObject) -> str | None: ...

    def faults(self, schema: JsonObject, value: JsonValue) -> tuple[str, ...]: ...


def schema_fault(schema: JsonObject) -> str | None:
    """Return why a schema is invalid, or None."""
    return _schemas().schema_fault(schema)


def schema_violations(schema: JsonObject | None, value: JsonValue) -> tuple[str, ...]:
    """Return the schema violations as text; empty if the value is valid or there is no schema."""
    return () if schema is None else _schemas().faults(schema, value)


def _schemas() -> _Schemas:
    return cast(_Schemas, importlib.import_module("choir_agent.skills.schemas"))

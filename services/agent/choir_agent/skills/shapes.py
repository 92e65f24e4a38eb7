"""Hold a skill's input and output to their schemas, if it has any.

Called by `read` and `engine`. What comes next is `schemas`, imported only when a skill has a schema: its
validator takes 6 MB, and most skills have none.
"""

import importlib
from typing import Protocol, cast

from pydantic import JsonValue

from choir_common.wire.json import JsonObject


class _Schemas(Protocol):
    def schema_fault(self, schema: JsonObject) -> str | None: ...

    def faults(self, schema: JsonObject, value: JsonValue) -> tuple[str, ...]: ...


def schema_fault(schema: JsonObject) -> str | None:
    """Return why a schema is none, or none."""
    return _schemas().schema_fault(schema)


def faults(schema: JsonObject | None, value: JsonValue) -> tuple[str, ...]:
    """Return what does not fit the schema; everything fits none."""
    return () if schema is None else _schemas().faults(schema, value)


def _schemas() -> _Schemas:
    return cast(_Schemas, importlib.import_module("choir_agent.skills.schemas"))

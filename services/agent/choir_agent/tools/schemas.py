"""Validate a tool's input against its JSON Schema and report faults that a model can act on.

Imported only by `registry`, at the first call: the validator takes 6 MB, which an agent that never
calls a tool does not need.
"""

from collections.abc import Mapping

import jsonschema_rs

from choir_common.wire.model import JsonObject

MAX_FAULTS = 5
MAX_FAULT_CHARS = 300


class InputValidator:
    """The compiled schemas of all tools, by canonical name."""

    def __init__(self, parameters: Mapping[str, JsonObject]) -> None:
        self._validators = {
            # Offline: a schema in a manifest must not make the agent read files or URLs.
            name: jsonschema_rs.Draft202012Validator(schema, offline=True)
            for name, schema in parameters.items()
        }

    def faults(self, name: str, arguments: JsonObject) -> list[str]:
        """Return what violates the schema; empty if the input is valid."""
        found: list[str] = []
        for error in self._validators[name].iter_errors(arguments):
            where = "/".join(str(part) for part in error.instance_path)
            found.append(f"{where or 'input'}: {error.message}"[:MAX_FAULT_CHARS])
            if len(found) == MAX_FAULTS:
                break
        return found

"""Check a tool's input against its JSON Schema (spec 8.2), in words a model can act on.

Imported by `registry` at the first call and nowhere else: the validator takes 6 MB, which an agent that only
talks need not have.
"""

from collections.abc import Mapping

import jsonschema_rs

from choir_common.wire.json import JsonObject

MAX_FAULTS = 5
MAX_FAULT_CHARS = 300


class Schemas:
    """The compiled schemas of all tools, by canonical name."""

    def __init__(self, parameters: Mapping[str, JsonObject]) -> None:
        self._validators = {
            # offline: a manifest's schema may not make us read files or addresses
            name: jsonschema_rs.Draft202012Validator(schema, offline=True)
            for name, schema in parameters.items()
        }

    def faults(self, name: str, arguments: JsonObject) -> list[str]:
        """Return what does not fit; empty if all fits."""
        found: list[str] = []
        for error in self._validators[name].iter_errors(arguments):
            where = "/".join(str(part) for part in error.instance_path)
            found.append(f"{where or 'input'}: {error.message}"[:MAX_FAULT_CHARS])
            if len(found) == MAX_FAULTS:
                break
        return found

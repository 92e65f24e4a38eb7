"""Read a core job's result from the model's last words: pure.

Called by `core_moves`. With an `output_schema` the words must be JSON that fits; a code fence around it is
forgiven.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from choir_common.wire.json import JsonObject

Validate = Callable[[JsonObject, JsonValue], tuple[str, ...]]
"""From a schema and a value to what does not fit, in words."""

_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A result of the asked shape."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why the words are no result."""

    why: str


def read_deliverable(
    text: str, schema: JsonObject | None, validate: Validate
) -> Deliverable | Misfit:
    """Return the result: the words themselves where no shape was asked for."""
    words = text.strip()
    if not words:
        return Misfit("it is empty.")
    if schema is None:
        return Deliverable({"text": words})
    fenced = _FENCE.match(words)
    try:
        value: JsonValue = orjson.loads(fenced.group(1) if fenced else words)
    except orjson.JSONDecodeError as error:
        return Misfit(f"it is not JSON ({error}); nothing may stand around the JSON.")
    faults = validate(schema, value)
    if faults:
        return Misfit(f"{'; '.join(faults)}.")
    return Deliverable(value if isinstance(value, dict) else {"value": value})

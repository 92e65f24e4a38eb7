"""Parser for a core job's result, which is the model's final text. Pure.

Called by `core_moves`. With an `output_schema` the text must be valid JSON for it; a code fence around it
is accepted.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from choir_common.wire.json import JsonObject

Validate = Callable[[JsonObject, JsonValue], tuple[str, ...]]
"""Takes a schema and a value; returns the violations as text."""

_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A result that matches the requested schema."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a text is not a valid result."""

    why: str


def read_deliverable(
    text: str, schema: JsonObject | None, validate: Validate
) -> Deliverable | Misfit:
    """Return the parsed result; without a schema, the text itself."""
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

"""Parsing of a tool's input into its wire model, with fields that only control sets."""

from typing import TypeVar

import orjson
from pydantic import ValidationError

from choir_common.errors import BadInput
from choir_common.wire.faults import faults_of
from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire

M = TypeVar("M", bound=Wire)


def read_input(shape: type[M], given: JsonObject, **ours: str) -> M:
    """Return `given` and `ours` as `shape`; `ours` are the fields set by control.

    Raises BadInput with the fields that do not fit, or that the caller must not set.
    """
    forbidden = sorted(given.keys() & ours.keys())
    if forbidden:
        raise BadInput(f"{', '.join(forbidden)} cannot be given: control sets it.")
    try:
        return shape.model_validate_json(orjson.dumps({**given, **ours}))
    except ValidationError as error:
        text = "; ".join(faults_of(error, "input"))
        raise BadInput(f"The input does not fit: {text}.") from None
    except (orjson.JSONEncodeError, TypeError) as error:
        raise BadInput(f"The input holds what JSON cannot carry: {error}.") from None

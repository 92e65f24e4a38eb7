"""Parsing of a tool's input into its wire model, with fields that only control sets."""

from typing import TypeVar

import orjson
from pydantic import JsonValue, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.validation_messages import error_messages

M = TypeVar("M", bound=WireModel)


def parse_tool_input(shape: type[M], arguments: JsonObject, **fixed: JsonValue) -> M:
    """Parse `arguments` together with `fixed`, the fields that control sets.

    Raises InvalidRequest with the fields that do not fit, or that the caller must not set.
    """
    forbidden = sorted(arguments.keys() & fixed.keys())
    if forbidden:
        raise InvalidRequest(f"{', '.join(forbidden)} must not be set: control sets it.")
    try:
        return shape.model_validate_json(orjson.dumps({**arguments, **fixed}))
    except ValidationError as error:
        text = "; ".join(error_messages(error, "input"))
        raise InvalidRequest(f"The input is invalid: {text}.") from None
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidRequest(
            f"The input contains a value that JSON cannot represent: {error}."
        ) from None

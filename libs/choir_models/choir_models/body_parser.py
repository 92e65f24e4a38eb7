"""Parsing of what the adapters' responses have in common. Pure."""

from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_message
from choir_models.model import ModelFailed, ProposedCall
from choir_models.output_limits import MAX_ARGUMENTS

Body = TypeVar("Body", bound=BaseModel)
MAX_NAME = 200


def parse_body(shape: type[Body], body: bytes, problem: str) -> Body:
    """Return a response as `shape`; raises ModelFailed with `problem` and the first wrong field."""
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "body"
        message = f"{problem} ({where}: {error_message(fault)})"
        raise ModelFailed(message, cause="format") from error


def build_call(function: JsonObject, fields: JsonObject) -> ProposedCall:
    """Return a proposed call; `fields` are what else the provider sent with it.

    Some servers send the arguments as an object instead of text, or none at all.
    """
    name, arguments = function.get("name"), function.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
    return ProposedCall(
        name[:MAX_NAME] if isinstance(name, str) else "", (text or "{}")[:MAX_ARGUMENTS], fields
    )

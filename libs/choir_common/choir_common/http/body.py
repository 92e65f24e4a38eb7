"""Strict parsing of a JSON body into its wire model, and its description for OpenAPI."""

import json
from functools import cache
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.model import WireModel
from choir_common.wire.validation_messages import error_messages

M = TypeVar("M", bound=WireModel)
SHOWN = 5


async def parse_request_body(request: Request, shape: type[M]) -> M:
    """Return the body as `shape`; raises InvalidRequest with the fields that do not fit."""
    return parse_body(await request.body(), shape)


def parse_body(body: bytes, shape: type[M]) -> M:
    """Return `body` as `shape`; raises InvalidRequest with the fields that do not fit."""
    try:
        return shape.model_validate_json(body or b"{}")
    except ValidationError as error:
        text = "; ".join(error_messages(error, "body")[:SHOWN])
        raise InvalidRequest(_("The body is invalid: {text}.").format(text=text)) from None


def openapi_body(model: type[WireModel]) -> dict[str, Any]:
    """Return the value of `openapi_extra` for a body of this model."""
    # FastAPI merges it into its document: each router gets a copy of its own
    return {
        "requestBody": {"content": {"application/json": {"schema": json.loads(_schema(model))}}}
    }


@cache
def _schema(shape: type[WireModel]) -> str:
    return json.dumps(shape.model_json_schema())

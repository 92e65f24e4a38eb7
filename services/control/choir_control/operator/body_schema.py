"""OpenAPI description of request bodies that `read_body` parses. Used by the routers of this package."""

from copy import deepcopy
from functools import cache
from typing import Any

from choir_common.wire.model import Wire


def body_of(shape: type[Wire]) -> dict[str, Any]:
    """Return the value of `openapi_extra` for a body of this model."""
    # FastAPI merges it into its document: each router gets a copy of its own
    return {"requestBody": {"content": {"application/json": {"schema": deepcopy(_schema(shape))}}}}


@cache
def _schema(shape: type[Wire]) -> dict[str, Any]:
    return shape.model_json_schema()

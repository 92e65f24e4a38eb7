"""Describe bodies that `read_body` reads, for OpenAPI. Used by the routers of this room."""

from typing import Any

from choir_common.wire.model import Wire


def body_of(shape: type[Wire]) -> dict[str, Any]:
    """Return what `openapi_extra` needs."""
    schema = shape.model_json_schema()
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}

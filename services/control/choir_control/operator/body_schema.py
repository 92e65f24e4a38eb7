"""OpenAPI description of request bodies that `read_body` parses. Used by the routers of this package."""

from typing import Any

from choir_common.wire.model import Wire


def body_of(shape: type[Wire]) -> dict[str, Any]:
    """Return the value of `openapi_extra` for a body of this model."""
    schema = shape.model_json_schema()
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}

"""Strict parsing of a JSON body into its wire model. Used by the RPC endpoint and the operator API."""

from typing import TypeVar

from fastapi import Request
from pydantic import ValidationError

from choir_common.errors import BadInput
from choir_common.wire.faults import faults_of
from choir_common.wire.model import Wire

M = TypeVar("M", bound=Wire)
SHOWN = 5


async def read_body(request: Request, shape: type[M]) -> M:
    """Return the body as `shape`; raises BadInput with the fields that do not fit."""
    return parse_body(await request.body(), shape)


def parse_body(body: bytes, shape: type[M]) -> M:
    """Return `body` as `shape`; raises BadInput with the fields that do not fit."""
    try:
        return shape.model_validate_json(body or b"{}")
    except ValidationError as error:
        text = "; ".join(faults_of(error, "body")[:SHOWN])
        raise BadInput(f"The body does not fit: {text}.") from None

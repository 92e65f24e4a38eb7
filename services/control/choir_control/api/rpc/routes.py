"""OpenAPI description of the eight verbs. `RpcApp` serves the requests."""

from collections.abc import Awaitable, Callable
from typing import get_type_hints

from fastapi import APIRouter, Response

from choir_common.wire.model import WireModel
from choir_control.api.rpc.app import PREFIX
from choir_control.api.rpc.verbs import RpcVerb


def make_rpc_router(table: dict[str, RpcVerb]) -> APIRouter:
    """Return the router that describes the verbs."""
    router = APIRouter(tags=["rpc"])
    for verb, entry in table.items():
        router.add_api_route(
            f"{PREFIX}{verb}",
            _described(entry),
            methods=["POST"],
            name=verb,
            summary=verb,
            description=(entry.takes.__doc__ or "").strip(),
            response_model=get_type_hints(entry.answer)["return"],
        )
    return router


def _described(entry: RpcVerb) -> Callable[..., Awaitable[Response]]:
    """Return a function with the signature of the verb; it is never called."""

    async def never_called(body: WireModel) -> Response:
        raise AssertionError("RpcApp answers before the routes do")

    never_called.__annotations__["body"] = entry.takes
    return never_called

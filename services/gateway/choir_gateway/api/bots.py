"""HTTP routes of the bots: files from users, for control, and updates from Telegram's webhooks.

Files are streamed through the gateway, because their address at Telegram
contains the bot's token.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from choir_common.http.openapi import WEBHOOK_SECRET
from choir_gateway.channel_registry import ChannelRegistry

OCTETS = "application/octet-stream"


def make_file_router(registry: ChannelRegistry) -> APIRouter:
    """Return the file router for control; `http_app` requires the operator token."""
    router = APIRouter(tags=["channels"])

    @router.get("/v1/files/{gateway}", response_class=StreamingResponse)
    async def get_file(
        gateway: str, ref: Annotated[str, Query(min_length=1, max_length=1_000)]
    ) -> StreamingResponse:
        """Return the bytes of a file that a user sent."""
        async with contextlib.AsyncExitStack() as stack:
            # Open the file before the response starts, so that a failure still becomes an error
            # response.
            pieces = await stack.enter_async_context(registry.open_file(gateway, ref))
            return StreamingResponse(_all(pieces, stack.pop_all()), media_type=OCTETS)

    return router


def make_webhook_router(registry: ChannelRegistry) -> APIRouter:
    """Return the router for Telegram: the only one open to strangers, protected by the bot's secret."""
    router = APIRouter(tags=["webhooks"])

    @router.post("/telegram/{gateway}")
    async def take_update(
        gateway: str, request: Request, secret: Annotated[str | None, Depends(WEBHOOK_SECRET)]
    ) -> Response:
        """Store an update. It is durable when this returns 200; otherwise Telegram repeats it."""
        body = await request.body()
        await registry.store_update(gateway, body, secret or "")
        return Response()

    return router


async def _all(
    pieces: AsyncIterator[bytes], stack: contextlib.AsyncExitStack
) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in pieces:
            yield piece

"""The doors of bots: the files that users sent, for control; and updates, for Telegram's webhooks.

Mounted by doors.py. A file passes through as it comes: its address at Telegram, which holds the bot's
token, does not leave the gateway.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from choir_common.http.api_document import WEBHOOK_SECRET
from choir_gateway.roster import Roster

OCTETS = "application/octet-stream"


def file_routes(roster: Roster) -> APIRouter:
    """Return the door for control; the operator token is asked for where it is mounted."""
    router = APIRouter(tags=["channels"])

    @router.get("/v1/files/{gateway}", response_class=StreamingResponse)
    async def get_file(
        gateway: str, ref: Annotated[str, Query(min_length=1, max_length=1_000)]
    ) -> StreamingResponse:
        """Give the bytes of a file that a user sent."""
        async with contextlib.AsyncExitStack() as stack:
            # opened before the answer begins, so that an error is one
            pieces = await stack.enter_async_context(roster.open_file(gateway, ref))
            return StreamingResponse(_all(pieces, stack.pop_all()), media_type=OCTETS)

    return router


def webhook_routes(roster: Roster) -> APIRouter:
    """Return the door for Telegram: the only one a stranger may knock at, with the bot's own secret."""
    router = APIRouter(tags=["webhooks"])

    @router.post("/telegram/{gateway}")
    async def take_update(
        gateway: str, request: Request, secret: Annotated[str | None, Depends(WEBHOOK_SECRET)]
    ) -> Response:
        """Store an update; it is durable when this answers 200, and comes again otherwise."""
        body = await request.body()
        await roster.take_update(gateway, body, secret or "")
        return Response()

    return router


async def _all(
    pieces: AsyncIterator[bytes], stack: contextlib.AsyncExitStack
) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in pieces:
            yield piece

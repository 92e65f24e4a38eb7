"""`/v1/outbox`: the files of messages on their way, for the gateway, which uploads them (spec 19.5)."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse

from choir_control.workspaces.outgoing import Outgoing

MAX_ID = 2**62


def outbox_routes(outgoing: Outgoing) -> APIRouter:
    """Return the router; services use it, not people."""
    router = APIRouter(tags=["console"], include_in_schema=False)

    @router.get("/outbox/{outbox_id}/files/{number}")
    async def read_file(
        outbox_id: Annotated[int, Path(ge=1, le=MAX_ID)], number: Annotated[int, Path(ge=0, le=99)]
    ) -> FileResponse:
        """Give the bytes of a message's file, until it is delivered."""
        path = await outgoing.find(outbox_id, number)
        return FileResponse(path, media_type="application/octet-stream")

    return router

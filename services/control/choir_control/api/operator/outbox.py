"""`/v1/outbox`: files of messages in delivery, for the gateway, which uploads them."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse

from choir_control.workspaces.outgoing_files import OutgoingFiles

MAX_ID = 2**62


def outbox_routes(outgoing: OutgoingFiles) -> APIRouter:
    """Return the router; for services, not for people."""
    router = APIRouter(tags=["console"], include_in_schema=False)

    @router.get("/outbox/{outbox_id}/files/{number}")
    async def read_file(
        outbox_id: Annotated[int, Path(ge=1, le=MAX_ID)], number: Annotated[int, Path(ge=0, le=99)]
    ) -> FileResponse:
        """Return the bytes of a message's file, until the message is delivered."""
        path = await outgoing.find(outbox_id, number)
        return FileResponse(path, media_type="application/octet-stream")

    return router

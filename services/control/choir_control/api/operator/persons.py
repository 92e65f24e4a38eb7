"""`/v1/dms/{dm}/erasure`: preview and start the erasure of everything of a DM."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.ids import NAME_PATTERN
from choir_common.wire.erasure import ErasePerson, PersonErasurePreview
from choir_common.wire.operations import OperationStarted
from choir_control.agents.erasure.person_eraser import PersonEraser

DmPath = Annotated[str, Path(pattern=NAME_PATTERN)]


def person_routes(eraser: PersonEraser) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/dms/{dm}/erasure", tags=["erasure"])

    @router.get("")
    async def preview(dm: DmPath) -> PersonErasurePreview:
        """Show what an erasure would remove."""
        return await eraser.preview(dm)

    @router.post("", status_code=202, openapi_extra=openapi_body(ErasePerson))
    async def erase(dm: DmPath, request: Request) -> OperationStarted:
        """Erase what the preview showed; the operation's result is the signed certificate."""
        body = await parse_request_body(request, ErasePerson)
        return OperationStarted(operation_id=await eraser.erase(dm, body))

    return router

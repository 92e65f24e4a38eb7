"""`/v1/dms/{dm}/erasure`, `/v1/people/{name}/erasure`: preview and start the erasure of a DM or a person."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.ids import NAME_PATTERN
from choir_common.wire.erasure import ErasePerson, PersonErasurePreview
from choir_common.wire.operations import OperationStarted
from choir_control.agents.erasure.person_eraser import PersonEraser

DmPath = Annotated[str, Path(pattern=NAME_PATTERN)]
PersonPath = Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$")]


def person_routes(eraser: PersonEraser) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(tags=["erasure"])

    @router.get("/dms/{dm}/erasure")
    async def preview(dm: DmPath) -> PersonErasurePreview:
        """Show what an erasure would remove."""
        return await eraser.preview(dm)

    @router.post("/dms/{dm}/erasure", status_code=202, openapi_extra=openapi_body(ErasePerson))
    async def erase(dm: DmPath, request: Request) -> OperationStarted:
        """Erase what the preview showed; the operation's result is the signed certificate."""
        body = await parse_request_body(request, ErasePerson)
        return OperationStarted(operation_id=await eraser.erase(dm, body))

    @router.get("/people/{name}/erasure")
    async def preview_person(name: PersonPath) -> PersonErasurePreview:
        """Show what an erasure of a person would remove, in all the person's DMs."""
        return await eraser.preview_person(name)

    @router.post("/people/{name}/erasure", status_code=202, openapi_extra=openapi_body(ErasePerson))
    async def erase_person(name: PersonPath, request: Request) -> OperationStarted:
        """Erase what the preview showed; the operation's result is the signed certificate."""
        body = await parse_request_body(request, ErasePerson)
        return OperationStarted(operation_id=await eraser.erase_person(name, body))

    return router

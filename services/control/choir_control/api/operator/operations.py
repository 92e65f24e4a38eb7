"""`/v1/operations` and `/v1/workspaces`: builds, updates and workspace resets, and their progress."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import InvalidRequest
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.responses import event_stream_response
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.operations import (
    OperationStarted,
    OperationView,
    ResetWorkspace,
    WorkspaceView,
)
from choir_common.wire.operator import Page
from choir_control.agents.operations.service import OperationService
from choir_control.agents.rollout.service import UpdateService
from choir_control.agents.sessions.workspace_reset import WorkspaceService
from choir_control.api.operator.authentication import until_signed_out

MAX_ID = 64
MAX_SEQ = 2**53


def operation_routes(operations: OperationService) -> APIRouter:
    """Return the router of operations: work that takes longer than a request."""
    router = ServiceRouter(prefix="/operations", tags=["operations"])

    @router.get("")
    async def list_operations(
        cursor: Annotated[str | None, Query(max_length=MAX_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> Page[OperationView]:
        """List operations, newest first."""
        # one row more than requested shows whether there is a next page
        views = await operations.page(_plain(cursor) if cursor else None, limit + 1)
        next_id = views[limit - 1].operation_id if len(views) > limit else None
        return Page(items=views[:limit], next=next_id)

    @router.get("/{operation_id}")
    async def show_operation(operation_id: str) -> OperationView:
        """Show the progress or the result of an operation."""
        return await operations.get(_plain(operation_id))

    @router.get("/{operation_id}/events", response_class=StreamingResponse)
    async def follow_operation(operation_id: str, request: Request) -> StreamingResponse:
        """Stream the progress of an operation (`step`, `line`), ending with its final view
        (`end`)."""
        view = await operations.get(_plain(operation_id))
        events = operations.follow(view.operation_id, _last_event_id(request))
        return event_stream_response(until_signed_out(request, events))

    return router


def rollout_routes(rollout: UpdateService) -> APIRouter:
    """Return the router of builds and updates."""
    router = ServiceRouter(prefix="/agents", tags=["agents"])

    @router.post("/update-all", status_code=202)
    async def update_all() -> OperationStarted:
        """Build every agent with new commits in its repositories; redeploy the running ones."""
        return OperationStarted(operation_id=await rollout.update_all())

    @router.post("/{agent_id}/build", status_code=202)
    async def build(agent_id: str) -> OperationStarted:
        """Build an agent's image; a running agent is not restarted."""
        return OperationStarted(operation_id=await rollout.build(agent_id))

    @router.post("/{agent_id}/update", status_code=202)
    async def update(agent_id: str) -> OperationStarted:
        """Build an agent's image and, if the agent is running, restart it with that image."""
        return OperationStarted(operation_id=await rollout.update(agent_id))

    return router


def _plain(text: str) -> str:
    if len(text) > MAX_ID or not text.isascii() or not text.isprintable():
        raise InvalidRequest(_("This is not the id of an operation."))
    return text


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) > MAX_SEQ:
        raise InvalidRequest(_("Last-Event-ID must be the id of an event of this stream."))
    return int(text)


def workspace_routes(workspaces: WorkspaceService) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/workspaces", tags=["workspaces"])

    @router.get("")
    async def list_workspaces() -> Page[WorkspaceView]:
        """List the workspaces, the agent that uses each, and their size."""
        return Page(items=await workspaces.all())

    @router.post("/{name}/reset", status_code=202, openapi_extra=openapi_body(ResetWorkspace))
    async def reset_workspace(name: str, request: Request) -> OperationStarted:
        """Delete everything in a workspace; the agent that uses it is stopped first."""
        body = await parse_request_body(request, ResetWorkspace)
        return OperationStarted(operation_id=await workspaces.reset(name, body))

    return router

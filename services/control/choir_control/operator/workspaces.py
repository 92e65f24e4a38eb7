"""`/v1/workspaces`: list them, and reset one."""

from fastapi import APIRouter, Request

from choir_common.wire.operations import Begun
from choir_common.wire.operator import Page
from choir_common.wire.workspaces import ResetWorkspace, WorkspaceView
from choir_control.operator.body_schema import body_of
from choir_control.rpc.body import read_body
from choir_control.sessions.reset import Workspaces


def workspace_routes(workspaces: Workspaces) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/workspaces", tags=["workspaces"])

    @router.get("")
    async def list_workspaces() -> Page[WorkspaceView]:
        """List the workspaces, the agent that uses each, and their size."""
        return Page(items=await workspaces.all())

    @router.post("/{name}/reset", status_code=202, openapi_extra=body_of(ResetWorkspace))
    async def reset_workspace(name: str, request: Request) -> Begun:
        """Delete everything in a workspace; the agent that uses it is stopped first."""
        asked = await read_body(request, ResetWorkspace)
        return Begun(operation_id=await workspaces.reset(name, asked))

    return router

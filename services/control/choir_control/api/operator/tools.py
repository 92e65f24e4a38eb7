"""`/v1/agents/{agent_id}/tools`: trials of external tools."""

from fastapi import APIRouter, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.local_tools import ToolTrial, TryTool
from choir_control.agents.sessions.tool_trials import ToolTrialService


def tool_routes(trials: ToolTrialService) -> APIRouter:
    """Return the router of the trials."""
    router = ServiceRouter(prefix="/agents", tags=["agents"])

    @router.post("/{agent_id}/tools/{tool}/try", openapi_extra=openapi_body(TryTool))
    async def try_tool(agent_id: str, tool: str, request: Request) -> ToolTrial:
        """Run one call of an external tool, confined as an agent's call, without a session.

        The files are those of the agent's folder or repository now. A failed call is a result.
        """
        return await trials.run(agent_id, tool, await parse_request_body(request, TryTool))

    return router

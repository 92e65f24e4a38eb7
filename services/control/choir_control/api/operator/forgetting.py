"""`/v1/agents/{agent_id}/memory/forget` and `/reset`: erase a part of memory, or reset a conversation.

Without `expected_digest` both only return a preview. Operators only: agents have no tool for this.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.ids import NAME_PATTERN
from choir_common.wire.memory_forget import ForgetReport, ForgetSelection, ResetRequest
from choir_control.agents.sessions.forgetting import ForgetService
from choir_control.conversations.session_overview import AgentOverview

AgentPath = Annotated[str, Path(pattern=NAME_PATTERN)]


def forget_routes(forgetting: ForgetService, overview: AgentOverview) -> APIRouter:
    """Return the router of erasures and resets."""
    router = ServiceRouter(prefix="/agents/{agent_id}", tags=["memory"])

    @router.post("/memory/forget", openapi_extra=openapi_body(ForgetSelection))
    async def forget(agent_id: AgentPath, request: Request) -> ForgetReport:
        """Preview or erase a selection of memory; `expected_digest` is the preview's digest.

        Also for an agent that is no longer configured.
        """
        return await forgetting.forget(agent_id, await parse_request_body(request, ForgetSelection))

    @router.post("/reset", openapi_extra=openapi_body(ResetRequest))
    async def reset(agent_id: AgentPath, request: Request) -> ForgetReport:
        """Preview or carry out a reset of an agent's conversation."""
        await overview.require_known_agent(agent_id)
        body = await parse_request_body(request, ResetRequest)
        return await forgetting.reset(agent_id, body)

    return router

"""`/v1/agents`: see, start and stop agents."""

from fastapi import APIRouter, Request

from choir_common.errors import Conflict
from choir_common.wire.operator import AgentView, Page, StartAgent
from choir_control.configuration.current import Configuration
from choir_control.rpc.body import read_body
from choir_control.sessions.roster import Roster
from choir_control.sessions.start import Starter
from choir_control.sessions.stop import Stopper

STOPPED_BY_OPERATOR = "an operator asked for it"


def agent_routes(
    configuration: Configuration, roster: Roster, starter: Starter, stopper: Stopper
) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/agents", tags=["agents"])

    @router.get("")
    async def list_agents() -> Page[AgentView]:
        """List every configured agent."""
        return Page(items=await roster.all())

    @router.get("/{agent_id}")
    async def show_agent(agent_id: str) -> AgentView:
        """Show one agent."""
        return await roster.one(agent_id)

    @router.post(
        "/{agent_id}/start",
        openapi_extra={"requestBody": {"content": {"application/json": {"schema": _START}}}},
    )
    async def start_agent(agent_id: str, request: Request) -> AgentView:
        """Start an agent with its defaults, or with what the body says instead."""
        await starter.start(agent_id, await read_body(request, StartAgent))
        return await roster.one(agent_id)

    @router.post("/{agent_id}/stop")
    async def stop_agent(agent_id: str) -> AgentView:
        """Stop an agent at its next safe point."""
        configuration.current.agent(agent_id)
        if await stopper.stop(agent_id, STOPPED_BY_OPERATOR) is None:
            raise Conflict(f"{agent_id} is not running.")
        return await roster.one(agent_id)

    return router


_START = StartAgent.model_json_schema()

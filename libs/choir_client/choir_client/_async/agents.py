"""Agents: list, show, start, stop, instruct, build, update; trials of their tools."""

from choir_client import operations
from choir_client._async.connection import AsyncConnection
from choir_common.wire.local_tools import ToolTrial, TryTool
from choir_common.wire.model import JsonObject
from choir_common.wire.operations import OperationStarted
from choir_common.wire.operator import AgentView, CompactMemory, SignalQueued, StartAgent

AgentList = list[AgentView]
_DEFAULTS = StartAgent()


class AsyncAgents:
    """The agents of a Choir."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> AgentList:
        """Return all agents."""
        return (await self._connection.call(operations.LIST_AGENTS)).items

    async def get(self, agent_id: str) -> AgentView:
        """Return one agent. Raises NotFound if there is no such agent."""
        return await self._connection.call(operations.SHOW_AGENT, {"agent_id": agent_id})

    async def start(
        self, agent_id: str, request: StartAgent = _DEFAULTS, *, timeout_s: float | None = None
    ) -> AgentView:
        """Start an agent. Raises Conflict if it runs, or if another agent has one of its resources."""
        return await self._connection.call(
            operations.START_AGENT, {"agent_id": agent_id}, body=request, timeout_s=timeout_s
        )

    async def stop(self, agent_id: str, *, timeout_s: float | None = None) -> AgentView:
        """Stop an agent gracefully. Raises Conflict if it does not run."""
        return await self._connection.call(
            operations.STOP_AGENT, {"agent_id": agent_id}, timeout_s=timeout_s
        )

    async def restart(self, agent_id: str, *, timeout_s: float | None = None) -> AgentView:
        """Stop an agent and start it with the same resources. Raises Conflict if it does not run."""
        return await self._connection.call(
            operations.RESTART_AGENT, {"agent_id": agent_id}, timeout_s=timeout_s
        )

    async def compact(self, agent_id: str, request: CompactMemory) -> SignalQueued:
        """Compact the working memory of a lane. Raises Conflict if the session does not run."""
        return await self._connection.call(operations.COMPACT, {"agent_id": agent_id}, body=request)

    async def build(self, agent_id: str) -> OperationStarted:
        """Start a build of an agent's image from its repositories. Raises NotFound."""
        return await self._connection.call(operations.BUILD_AGENT, {"agent_id": agent_id})

    async def update(self, agent_id: str) -> OperationStarted:
        """Start a build of an agent's image and its restart with that. Raises NotFound."""
        return await self._connection.call(operations.UPDATE_AGENT, {"agent_id": agent_id})

    async def update_all(self) -> OperationStarted:
        """Start an update of every agent, one after the other."""
        return await self._connection.call(operations.UPDATE_AGENTS)

    async def try_tool(self, agent_id: str, tool: str, arguments: JsonObject) -> ToolTrial:
        """Run one call of an agent's own tool, behind the walls of a real call. Raises NotFound."""
        names, body = {"agent_id": agent_id, "tool": tool}, TryTool(input=arguments)
        return await self._connection.call(operations.TRY_TOOL, names, body=body)

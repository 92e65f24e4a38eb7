"""Agents: list, show, start, stop, instruct."""

from choir_client import operations
from choir_client._async.connection import AsyncConnection
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

"""Agents: list, show, start, stop, instruct."""

from choir_client import operations
from choir_client._sync.connection import Connection
from choir_common.wire.operator import AgentView, CompactMemory, SignalQueued, StartAgent

AgentList = list[AgentView]
_DEFAULTS = StartAgent()


class Agents:
    """The agents of a Choir."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> AgentList:
        """Return all agents."""
        return (self._connection.call(operations.LIST_AGENTS)).items

    def get(self, agent_id: str) -> AgentView:
        """Return one agent. Raises NotFound if there is no such agent."""
        return self._connection.call(operations.SHOW_AGENT, {"agent_id": agent_id})

    def start(
        self, agent_id: str, request: StartAgent = _DEFAULTS, *, timeout_s: float | None = None
    ) -> AgentView:
        """Start an agent. Raises Conflict if it runs, or if another agent has one of its resources."""
        return self._connection.call(
            operations.START_AGENT, {"agent_id": agent_id}, body=request, timeout_s=timeout_s
        )

    def stop(self, agent_id: str, *, timeout_s: float | None = None) -> AgentView:
        """Stop an agent gracefully. Raises Conflict if it does not run."""
        return self._connection.call(
            operations.STOP_AGENT, {"agent_id": agent_id}, timeout_s=timeout_s
        )

    def restart(self, agent_id: str, *, timeout_s: float | None = None) -> AgentView:
        """Stop an agent and start it with the same resources. Raises Conflict if it does not run."""
        return self._connection.call(
            operations.RESTART_AGENT, {"agent_id": agent_id}, timeout_s=timeout_s
        )

    def compact(self, agent_id: str, request: CompactMemory) -> SignalQueued:
        """Compact the working memory of a lane. Raises Conflict if the session does not run."""
        return self._connection.call(operations.COMPACT, {"agent_id": agent_id}, body=request)

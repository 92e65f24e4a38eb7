"""What every runtime does alike: the table of its agents, the end of their logs, and reports of exits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from choir_common.errors import Conflict
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.port import AgentExit, LaunchSpec, RunningAgent

EXITS_KEPT = 1_000


class AgentRecord(Protocol):
    """State of one agent from its start to its exit."""

    spec: LaunchSpec
    session_over: bool

    @property
    def is_running(self) -> bool:
        """Return whether its start has succeeded."""

    def describe(self) -> RunningAgent:
        """Return the port's description of the agent."""


A = TypeVar("A", bound=AgentRecord)


class RuntimeWithRecords(Generic[A]):
    """Base of the runtimes."""

    def __init__(self, logs: AgentLogs) -> None:
        self._logs = logs
        self._agents: dict[str, A] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._exits: asyncio.Queue[AgentExit | None] = asyncio.Queue(EXITS_KEPT)

    async def list_running(self) -> list[RunningAgent]:
        """List the running agents that this control process started."""
        return [agent.describe() for agent in self._agents.values() if agent.is_running]

    def archive_log(self, agent_id: str, session_id: str) -> None:
        """Archive the agent's log because the session is over; if the agent still runs, after its exit."""
        agent = self._agents.get(agent_id)
        if agent is None:
            self._logs.archive(agent_id)
        elif agent.spec.session_id == session_id:
            agent.session_over = True

    async def exits(self) -> AsyncIterator[AgentExit]:
        """Yield every exit as it happens, including those caused by `stop`; end after `close`."""
        while (exit_ := await self._exits.get()) is not None:
            yield exit_

    async def claim_address(self) -> None:
        """Do nothing: clients have the address of one process."""

    def _reserve(self, agent: A) -> A:
        """Enter an agent before the first await of its start, so that a second start is refused.

        Raises Conflict when that agent already runs.
        """
        agent_id = agent.spec.agent_id
        if agent_id in self._agents:
            raise Conflict(f"The agent {agent_id} already runs.")
        self._agents[agent_id] = agent
        return agent

    def _watch(self, agent: A, follow: Coroutine[Any, Any, None]) -> None:
        watcher = asyncio.create_task(follow, name=f"exit of {agent.spec.agent_id}")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)

    async def _report(self, agent: A, code: int | None, how: str) -> None:
        """Remove an agent and report its exit; `how` is for operators."""
        spec = agent.spec
        # first, because a receiver may start the agent again
        del self._agents[spec.agent_id]
        detail = f"{how}; its log is {self._logs.path(spec.agent_id)}"
        await self._exits.put(AgentExit(spec.agent_id, spec.session_id, spec.epoch, code, detail))

    def _end_exits(self) -> None:
        """End `exits`."""
        with contextlib.suppress(asyncio.QueueFull):
            self._exits.put_nowait(None)

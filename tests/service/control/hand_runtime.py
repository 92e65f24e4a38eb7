"""A runtime whose agents are moved by the test's hand: it starts no process and obeys the port."""

import asyncio
from collections.abc import AsyncIterator

from choir_common.errors import Conflict, Unavailable
from choir_common.wire.local_tools import ToolTrialOrder
from choir_control.agents.runtimes.port import AgentExit, LaunchSpec, RunningAgent


class HandRuntime:
    """`AgentRuntime` without processes; `specs` holds every start there was."""

    def __init__(self) -> None:
        self.specs: list[LaunchSpec] = []
        self.alive: dict[str, LaunchSpec] = {}
        self.refuse_starts = False
        self.away = ""
        self.orphans = 0
        self.removal_s = 0.0
        self.sessions_over: list[tuple[str, str]] = []
        self._exits: asyncio.Queue[AgentExit] = asyncio.Queue()

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        if self.refuse_starts:
            raise Unavailable("the engine is away")
        if spec.agent_id in self.alive:
            raise Conflict(f"{spec.agent_id} already runs")
        self.specs.append(spec)
        self.alive[spec.agent_id] = spec
        return _running(spec)

    async def stop(self, agent_id: str, grace_s: float) -> None:
        self.die(agent_id, 0)

    def die(self, agent_id: str, code: int = -9) -> None:
        """Let the agent's process end, as the kernel would tell."""
        spec = self.alive.pop(agent_id, None)
        if spec is not None:
            gone = AgentExit(spec.agent_id, spec.session_id, spec.epoch, code, f"code {code}")
            self._exits.put_nowait(gone)

    async def run_trial(self, spec: LaunchSpec, order: ToolTrialOrder, timeout_s: float) -> bytes:
        raise Unavailable("there are no processes")

    async def list_running(self) -> list[RunningAgent]:
        return [_running(spec) for spec in self.alive.values()]

    async def unavailable_reason(self) -> str:
        return self.away

    def limitations(self) -> tuple[str, ...]:
        return ()

    def call_limits(self) -> str:
        return ""

    def archive_log(self, agent_id: str, session_id: str) -> None:
        self.sessions_over.append((agent_id, session_id))

    async def claim_address(self) -> None:
        pass

    async def remove_orphans(self) -> int:
        await asyncio.sleep(self.removal_s)
        return self.orphans

    async def exits(self) -> AsyncIterator[AgentExit]:
        while True:
            yield await self._exits.get()

    async def close(self) -> None:
        self.alive.clear()

    async def hand_over(self) -> None:
        await self.close()


def _running(spec: LaunchSpec) -> RunningAgent:
    return RunningAgent(spec.agent_id, spec.session_id, spec.epoch, "hand", None)

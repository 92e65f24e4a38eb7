"""Run the maintenance tasks of all agents periodically.

Run by `app` as a task; `errands` builds new tasks for each pass.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_memory.maintenance.tasks import MaintenanceTask

log = structlog.get_logger("choir.memory.rounds")


@dataclass(frozen=True, slots=True)
class MaintenanceScheduler:
    """The maintenance loop of one replica; leases and row locks keep replicas from doing the same work
    twice."""

    agents: Callable[[], Awaitable[Sequence[str]]]
    errands: Callable[[], Awaitable[Sequence[MaintenanceTask]]]
    """Builds the tasks, in their order; if one fails for an agent, the later ones are skipped for it in
    this pass."""
    every_s: float

    async def run(self) -> None:
        """Run a pass every `every_s` seconds until cancelled; failed tasks run again in the next pass."""
        while True:
            try:
                errands = await self.errands()
                for agent_id in await self.agents():
                    await self.visit(agent_id, errands)
            except ChoirError as error:
                log.warning("a round was cut short", error=error.message)
            await asyncio.sleep(self.every_s)

    async def visit(self, agent_id: str, errands: Sequence[MaintenanceTask]) -> None:
        """Run all tasks for one agent."""
        try:
            for errand in errands:
                await errand(agent_id)
        except ChoirError as error:
            log.warning("an agent's errand failed", agent_id=agent_id, error=error.message)
        except Exception:  # the outermost loop: the other agents' tasks must still run
            log.exception("an agent's errand failed", agent_id=agent_id)

"""Go round all agents from time to time and do what is due for each.

Run by `app` as a task; the errands are `consolidate` and rooms below.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError

log = structlog.get_logger("choir.memory.rounds")

Errand = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of one replica; the errands see to it that no two do the same."""

    agents: Callable[[], Awaitable[Sequence[str]]]
    begin: Callable[[], None]
    errands: Sequence[Errand]
    """In this order for each agent; one that fails keeps the later ones from this agent until next time."""
    every_s: float

    async def run(self) -> None:
        """Go round, for ever; an agent whose errand fails has its turn again in the next round."""
        while True:
            try:
                self.begin()
                for agent_id in await self.agents():
                    await self.visit(agent_id)
            except ChoirError as error:
                log.warning("a round was cut short", error=error.message)
            await asyncio.sleep(self.every_s)

    async def visit(self, agent_id: str) -> None:
        """Run every errand for one agent."""
        try:
            for errand in self.errands:
                await errand(agent_id)
        except ChoirError as error:
            log.warning("an agent's errand failed", agent_id=agent_id, error=error.message)
        except Exception:  # the outermost loop: the others' memory must go on
            log.exception("an agent's errand failed", agent_id=agent_id)

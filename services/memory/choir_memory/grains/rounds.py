"""Go round all agents from time to time and do what is due for each.

Run by `app` as a task; what each agent is visited for is made anew by `errands` as a round begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_memory.grains.errands import Errand

log = structlog.get_logger("choir.memory.rounds")


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of one replica; the errands see to it that no two do the same."""

    agents: Callable[[], Awaitable[Sequence[str]]]
    errands: Callable[[], Awaitable[Sequence[Errand]]]
    """In this order for each agent; one that fails keeps the later ones from this agent until next time."""
    every_s: float

    async def run(self) -> None:
        """Go round, for ever; an agent whose errand fails has its turn again in the next round."""
        while True:
            try:
                errands = await self.errands()
                for agent_id in await self.agents():
                    await self.visit(agent_id, errands)
            except ChoirError as error:
                log.warning("a round was cut short", error=error.message)
            await asyncio.sleep(self.every_s)

    async def visit(self, agent_id: str, errands: Sequence[Errand]) -> None:
        """Run every errand for one agent."""
        try:
            for errand in errands:
                await errand(agent_id)
        except ChoirError as error:
            log.warning("an agent's errand failed", agent_id=agent_id, error=error.message)
        except Exception:  # the outermost loop: the others' memory must go on
            log.exception("an agent's errand failed", agent_id=agent_id)

"""Limit concurrent page loads, in total and per agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class LoadSlots:
    """Slots for concurrent loads; one agent gets at most half of them."""

    def __init__(self, slots: int) -> None:
        self._all = asyncio.Semaphore(slots)
        self._share = max(1, slots // 2)
        self._agents: dict[str, asyncio.Semaphore] = {}

    @contextlib.asynccontextmanager
    async def acquire(self, agent_id: str) -> AsyncIterator[None]:
        """Acquire a slot for the block."""
        own = self._agents.setdefault(agent_id, asyncio.Semaphore(self._share))
        # The agent's own first: while it waits for that one, it holds no slot that another could
        # use.
        async with own, self._all:
            yield

    def forget(self, agent_id: str) -> None:
        """Delete the state of an agent that is gone."""
        self._agents.pop(agent_id, None)

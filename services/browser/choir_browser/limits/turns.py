"""Let pages load a few at a time, and no agent take every turn. Used by contexts/rooms.py."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """So many loads at once in all, and of one agent at most half of them."""

    def __init__(self, at_once: int) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._share = max(1, at_once // 2)
        self._agents: dict[str, asyncio.Semaphore] = {}

    @contextlib.asynccontextmanager
    async def turn(self, agent_id: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it for the block."""
        own = self._agents.setdefault(agent_id, asyncio.Semaphore(self._share))
        # its own first: who waits for those holds none that another could use
        async with own, self._all:
            yield

    def forget(self, agent_id: str) -> None:
        """Keep nothing of an agent that is gone."""
        self._agents.pop(agent_id, None)

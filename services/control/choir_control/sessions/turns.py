"""Lock that allows one start, stop or crash of an agent at a time."""

import asyncio
from collections import defaultdict


class AgentTurns:
    """One lock per agent."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def of(self, agent_id: str) -> asyncio.Lock:
        """Return the agent's lock."""
        return self._locks[agent_id]

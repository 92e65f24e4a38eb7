"""Make an agent's space on first touch, and remember which exist.

Called by `app` at start and by `knowledge` and `search` before they touch a schema; next is `store`.
"""

import asyncio

from choir_common.errors import NotFound
from choir_memory.schema.naming import schema_name
from choir_memory.schema.store import SpaceStore


class Spaces:
    """The agents' schemas known to exist and to be up to date."""

    def __init__(self, store: SpaceStore) -> None:
        self._store = store
        self._ready: set[str] = set()
        # replicas wait for each other on Postgres' lock; requests of one process wait here
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Bring the shared schema up to date; raises StartupError when it cannot be."""
        await self._store.prepare()

    async def ensure(self, agent_id: str) -> None:
        """Make the agent's space if it is missing, and update it if it is older than this code."""
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        async with self._making:
            if agent_id not in self._ready:
                await self._store.make(agent_id)
                self._ready.add(agent_id)

    async def any(self) -> bool:
        """Tell whether any agent has a space."""
        return await self._store.any()

    async def require(self, agent_id: str) -> None:
        """Let pass only an agent that has a space.

        Raises NotFound otherwise: reading another's memory never makes one.
        """
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        if not await self._store.exists(agent_id):
            raise NotFound(f"There is no memory of an agent {agent_id}.")
        await self.ensure(agent_id)

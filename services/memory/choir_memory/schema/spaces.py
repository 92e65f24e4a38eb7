"""Create an agent's space on first use, and cache which spaces exist.

Called by `app` at startup, and by every package that is about to use an agent's schema; next is
`store`.
"""

import asyncio

from choir_common.errors import NotFound
from choir_memory.schema.naming import schema_name
from choir_memory.schema.store import SpaceStore


class Spaces:
    """Registry of agents' schemas; creates and migrates each on its first use in this process."""

    def __init__(self, store: SpaceStore) -> None:
        self._store = store
        self._ready: set[str] = set()
        # replicas are serialised by a Postgres lock; requests of this process by this one
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Migrate the shared schema; raises StartupError when that fails."""
        await self._store.prepare()

    async def ensure(self, agent_id: str) -> None:
        """Create the agent's space if it does not exist, and migrate it if it is older than this code."""
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        async with self._making:
            if agent_id not in self._ready:
                await self._store.make(agent_id)
                self._ready.add(agent_id)

    async def any(self) -> bool:
        """Return whether any agent has a space."""
        return await self._store.any()

    async def require(self, agent_id: str) -> None:
        """Raise NotFound unless the agent has a space.

        For reads of another agent's memory, which must not create a space.
        """
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        if not await self._store.exists(agent_id):
            raise NotFound(f"There is no memory of an agent {agent_id}.")
        await self.ensure(agent_id)

"""Leases on the work of one agent: one worker at a time, across all replicas.

A lease is a row of `choir_memory.cursors`, which may also store the position of that work.
"""

import contextlib
from collections.abc import AsyncIterator

from choir_common.postgres.pool import Database

LEASE_DURATION_S = 300.0
"""Seconds until another replica may take over the lease of a crashed one; call `renew` at least
this often."""

_TAKE = """
INSERT INTO choir_memory.cursors AS held (agent_id, name, holder, held_until)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
ON CONFLICT (agent_id, name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
WHERE held.holder IS NULL OR held.holder = excluded.holder OR held.held_until < clock_timestamp()
RETURNING TRUE
"""
_RELEASE = """
UPDATE choir_memory.cursors SET holder = NULL, held_until = NULL
WHERE agent_id = $1 AND name = $2 AND holder = $3
"""


class LeaseStore:
    """Leases of this replica, which is identified by `holder`."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._holder = holder

    async def renew(self, agent_id: str, name: str) -> bool:
        """Take or extend a lease; return whether this replica has it now."""
        row = await self._database.fetchval(_TAKE, agent_id, name, self._holder, LEASE_DURATION_S)
        return row is not None

    @contextlib.asynccontextmanager
    async def hold(self, agent_id: str, name: str) -> AsyncIterator[bool]:
        """Take a lease for the block and release it after; yields False if another replica has it."""
        ours = await self.renew(agent_id, name)
        try:
            yield ours
        finally:
            if ours:
                await self._database.execute(_RELEASE, agent_id, name, self._holder)

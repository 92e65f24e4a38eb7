"""Wait for locksets on the event loop, and give them back on every way out (spec 9.4).

Called by `arbiter`. Releasing never waits, so that neither an error nor a cancellation can leave a lock.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.locks.table import LockTable


class Locks:
    """The locks of one agent."""

    def __init__(self) -> None:
        self._table = LockTable()
        self._wakeups: dict[int, asyncio.Future[None]] = {}

    def barred_by(self, owner: str, locks: Lockset) -> tuple[Claim, ...]:
        """Return the claims that stand before a new one; empty if it would be granted at once."""
        return self._table.barred_by(owner, locks)

    def claims(self) -> tuple[Claim, ...]:
        """Return what is held or waited for now."""
        return (*self._table.holding.values(), *self._table.waiting.values())

    @asynccontextmanager
    async def hold(self, owner: str, locks: Lockset) -> AsyncIterator[None]:
        """Hold all of `locks` for the time of the block; waits for as long as it takes."""
        if not locks:
            yield
            return
        claim = self._table.ask(owner, locks)
        try:
            if claim.ticket in self._table.waiting:
                wakeup = self._wakeups[claim.ticket] = asyncio.get_running_loop().create_future()
                await wakeup
            yield
        finally:
            self._wakeups.pop(claim.ticket, None)
            for granted in self._table.release(claim):
                self._wake(granted)

    def _wake(self, claim: Claim) -> None:
        wakeup = self._wakeups.pop(claim.ticket, None)
        # one that was cancelled in this very moment gives its locks back itself
        if wakeup is not None and not wakeup.done():
            wakeup.set_result(None)

"""Asynchronous acquisition of locksets, with release on every exit path.

Release never waits, so neither an error nor a cancellation can leave a lock behind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.locks.lock_table import LockTable


class LockManager:
    """The locks of one agent."""

    def __init__(self) -> None:
        self._table = LockTable()
        self._wakeups: dict[int, asyncio.Future[None]] = {}

    def barred_by(self, owner: str, locks: Lockset) -> tuple[Claim, ...]:
        """Return the claims that block a new one; empty if it would be granted at once."""
        return self._table.blocking_claims(owner, locks)

    def claims(self) -> tuple[Claim, ...]:
        """Return all granted and waiting claims."""
        return (*self._table.granted.values(), *self._table.waiting.values())

    @asynccontextmanager
    async def hold(self, owner: str, locks: Lockset) -> AsyncIterator[None]:
        """Acquire all of `locks` for the duration of the context; waits without a time limit."""
        if not locks:
            yield
            return
        claim = self._table.request(owner, locks)
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
        # A waiter that was cancelled at this moment releases its locks itself.
        if wakeup is not None and not wakeup.done():
            wakeup.set_result(None)

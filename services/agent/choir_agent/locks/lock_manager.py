"""Asynchronous acquisition of locksets, with release on every exit path.

Release never waits, so neither an error nor a cancellation can leave a lock behind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from choir_agent.locks.claim import Claim, Lockset, locks_conflict
from choir_agent.locks.lock_table import LockTable
from choir_common.wire.events import HeldLock
from choir_common.wire.rpc import AwaitedLock


class LockWaitListener(Protocol):
    """Receiver of the fact that a call began to wait for locks, or no longer waits."""

    def lock_waits_changed(self) -> None: ...


class LockManager:
    """The locks of one agent."""

    def __init__(self) -> None:
        self._table = LockTable()
        self._wakeups: dict[int, asyncio.Future[None]] = {}
        self._listener: LockWaitListener | None = None

    def follow_waits(self, listener: LockWaitListener) -> None:
        """Tell this listener from now on when a wait begins or ends."""
        self._listener = listener

    def waits_of(self, owner: str) -> tuple[AwaitedLock, ...]:
        """Return the locks that the calls of an owner wait for, with those that are before it."""
        return tuple(
            AwaitedLock(resource=lock.resource, mode=lock.mode, lanes=lanes)
            for claim in self._table.waiting.values()
            if claim.owner == owner
            for lock in claim.locks
            if (lanes := self._lanes_before(claim, lock))
        )

    def _lanes_before(self, claim: Claim, lock: HeldLock) -> tuple[str, ...]:
        earlier = (other for other in self.claims() if other.ticket < claim.ticket)
        conflicting = (
            other.owner
            for other in earlier
            if any(locks_conflict(lock, theirs) for theirs in other.locks)
        )
        return tuple(dict.fromkeys(conflicting))

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
                self._notify()
                try:
                    await wakeup
                finally:
                    self._notify()
            yield
        finally:
            self._wakeups.pop(claim.ticket, None)
            for granted in self._table.release(claim):
                self._wake(granted)

    def _notify(self) -> None:
        if self._listener is not None:
            self._listener.lock_waits_changed()

    def _wake(self, claim: Claim) -> None:
        wakeup = self._wakeups.pop(claim.ticket, None)
        # A waiter that was cancelled at this moment releases its locks itself.
        if wakeup is not None and not wakeup.done():
            wakeup.set_result(None)

"""Locks that order signals: one for all conversations of a session.

Signals of a session share one cursor, so they must become visible in the order of their numbers. A signal
that is committed late with a lower number would never be sent.
"""

import contextlib
from collections.abc import AsyncIterator

from choir_common.keyed_lock import KeyedLock


class SignalLocks:
    """The lock of each session, by any of its conversations; the home conversation names the session."""

    def __init__(self) -> None:
        self._locks = KeyedLock()
        self._homes: dict[str, str] = {}
        """The home conversation by further conversation."""

    def conversations_of(self, home_dm: str) -> tuple[str, ...]:
        """Return the conversations of a session, its home conversation first."""
        return (home_dm, *sorted(dm for dm, home in self._homes.items() if home == home_dm))

    def join(self, dm: str, home_dm: str) -> None:
        """Let a further conversation use the lock of a session."""
        if dm != home_dm:
            self._homes[dm] = home_dm

    def leave(self, dm: str) -> None:
        """Let a conversation use a lock of its own again."""
        self._homes.pop(dm, None)

    @contextlib.asynccontextmanager
    async def of(self, dm: str) -> AsyncIterator[None]:
        """Hold the lock of the session that a conversation belongs to."""
        while True:
            home = self._homes.get(dm, dm)
            async with self._locks.of(home):
                # The conversation may have joined another session while this waited.
                if self._homes.get(dm, dm) == home:
                    yield
                    return

    @contextlib.asynccontextmanager
    async def of_both(self, dm: str, home_dm: str) -> AsyncIterator[None]:
        """Hold the locks of a conversation and of the session that it joins or leaves."""
        while True:
            keys = sorted({self._homes.get(dm, dm), self._homes.get(home_dm, home_dm)})
            async with contextlib.AsyncExitStack() as locks:
                for key in keys:
                    await locks.enter_async_context(self._locks.of(key))
                if keys == sorted({self._homes.get(dm, dm), self._homes.get(home_dm, home_dm)}):
                    yield
                    return

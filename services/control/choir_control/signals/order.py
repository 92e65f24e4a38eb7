"""One writer of a DM's signals at a time, so that they become visible in the order of their numbers.

A follower goes on after the newest number it has seen; a lower one that shows later would be missed.
Held by `inbox.accept` and `sessions.tell` while they store; this process is the only writer.
"""

import asyncio
from collections import defaultdict


class SignalOrder:
    """A lock per DM."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def of(self, dm: str) -> asyncio.Lock:
        """Return the lock of a DM and of whichever session holds it."""
        return self._turns[dm]

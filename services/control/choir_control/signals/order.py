"""Locks that make the signals of a DM visible in the order of their numbers.

A stream continues after the highest number it has seen and would miss a lower one that is committed
later. So writers of one DM take this lock (`inbox.accept`, `sessions.tell`). This process is the
only writer.
"""

import asyncio
from collections import defaultdict


class SignalOrder:
    """One lock per DM."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def of(self, dm: str) -> asyncio.Lock:
        """Return the lock of a DM, which also covers the session bound to it."""
        return self._turns[dm]

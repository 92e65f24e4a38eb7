"""Limit of the mails to each user in an hour: it bounds a loop with a program that answers every mail."""

import asyncio
from collections import deque

HOUR_S = 3600.0
MAX_CONVERSATIONS = 1_000


class MailBudget:
    """Sliding windows of the mails sent, by conversation; they begin empty with the process."""

    def __init__(self, mails_per_hour: int) -> None:
        self._limit = mails_per_hour
        self._sent_at: dict[str, deque[float]] = {}

    def wait_s(self, dm: str) -> float:
        """Return the seconds until the next mail may be sent; 0 if it may be sent now."""
        now = asyncio.get_running_loop().time()
        times = self._sent_at.setdefault(dm, deque())
        while times and times[0] <= now - HOUR_S:
            times.popleft()
        return times[0] + HOUR_S - now if len(times) >= self._limit else 0.0

    def count(self, dm: str) -> None:
        """Count a mail that was sent, or may have been."""
        now = asyncio.get_running_loop().time()
        self._sent_at.setdefault(dm, deque()).append(now)
        if len(self._sent_at) > MAX_CONVERSATIONS:
            # Strangers who got a code do not stay in memory.
            recent = self._sent_at.items()
            self._sent_at = {
                it: times for it, times in recent if times and times[-1] > now - HOUR_S
            }

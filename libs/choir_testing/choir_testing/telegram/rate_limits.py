"""Telegram's published rate limits.

`server` calls `RateLimits` for every call that adds to a chat, if a test enables the limits.
"""

import time
from collections import deque
from dataclasses import dataclass, field

from choir_testing.telegram.faults import BotApiError

CHAT_WINDOW_S = 10.0
GROUP_WINDOW_S = 60.0


@dataclass(slots=True)
class RateLimits:
    """Recent messages of one bot: per second in total, and per chat over ten seconds."""

    per_second: int = 30
    per_chat: int = 15
    """Messages per chat in `CHAT_WINDOW_S`: one per second and a short burst."""
    per_group: int = 20
    """Messages per group in a minute."""
    refused: int = 0
    _all: deque[float] = field(default_factory=deque)
    _chats: dict[str, deque[float]] = field(default_factory=dict)

    def count(self, chat: str) -> None:
        """Count one message. Raises BotApiError 429 above the limit."""
        now = time.monotonic()
        self._check(self._all, now, 1.0, self.per_second)
        window_s, most = CHAT_WINDOW_S, self.per_chat
        if chat.startswith("-"):
            window_s, most = GROUP_WINDOW_S, self.per_group
        self._check(self._chats.setdefault(chat, deque()), now, window_s, most)
        self._all.append(now)
        self._chats[chat].append(now)

    def _check(self, recent: "deque[float]", now: float, window_s: float, most: int) -> None:
        while recent and recent[0] <= now - window_s:
            recent.popleft()
        if len(recent) >= most:
            self.refused += 1
            wait_s = int(window_s - (now - recent[0])) + 1
            raise BotApiError(429, f"Too Many Requests: retry after {wait_s}", wait_s)

"""How fast bots may speak before this Telegram refuses: its published limits, counted as it counts.

server.py asks `Traffic` at every call that puts something into a chat, when a test wants limits.
"""

import time
from collections import deque
from dataclasses import dataclass, field

from choir_common.testing.telegram.faults import BotApiError

CHAT_WINDOW_S = 10.0


@dataclass(slots=True)
class Traffic:
    """The recent sendings of one bot: per second in all, and per chat over ten seconds."""

    per_second: int = 30
    per_chat: int = 15
    """One a second, and a short burst on top: what a chat may get in `CHAT_WINDOW_S`."""
    refused: int = 0
    _all: deque[float] = field(default_factory=deque)
    _chats: dict[str, deque[float]] = field(default_factory=dict)

    def count(self, chat: str) -> None:
        """Count one sending. Raises BotApiError 429 when it is one too many."""
        now = time.monotonic()
        self._check(self._all, now, 1.0, self.per_second)
        self._check(self._chats.setdefault(chat, deque()), now, CHAT_WINDOW_S, self.per_chat)
        self._all.append(now)
        self._chats[chat].append(now)

    def _check(self, recent: "deque[float]", now: float, window_s: float, most: int) -> None:
        while recent and recent[0] <= now - window_s:
            recent.popleft()
        if len(recent) >= most:
            self.refused += 1
            wait_s = int(window_s - (now - recent[0])) + 1
            raise BotApiError(429, f"Too Many Requests: retry after {wait_s}", wait_s)

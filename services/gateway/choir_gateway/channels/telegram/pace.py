"""Rate limiter for Telegram: 30 messages a second per bot, one a second per chat, with short bursts.

Callers also handle a 429 response, which may arrive nevertheless.
"""

import asyncio
from collections import OrderedDict

from aiolimiter import AsyncLimiter

from choir_common.errors import Unavailable

# Five at once, then 25 a second: at most 30 in any second.
BOT_BURST, BOT_WINDOW_S = 5, 0.2
# A reply of 20,000 characters is sent at once; further messages one per second.
CHAT_BURST, CHAT_WINDOW_S = 5, 5.0
MAX_CHATS = 1000


class RateLimiter:
    """Rate limiter of one bot and its chats."""

    def __init__(self) -> None:
        self._bot = AsyncLimiter(BOT_BURST, BOT_WINDOW_S)
        self._chats: OrderedDict[str, AsyncLimiter] = OrderedDict()

    async def wait(self, chat: str, deadline: float) -> None:
        """Wait until a message to this chat is allowed.

        Raises Unavailable if that is not before `deadline` (in the event loop's time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._chat(chat).acquire()
                await self._bot.acquire()
        except TimeoutError:
            raise Unavailable(
                "The rate limit of this bot is exhausted.", retry_after_s=1.0
            ) from None

    def is_free(self, chat: str) -> bool:
        """Return True if an unimportant message may be sent now without delaying a reply."""
        return self._chat(chat).has_capacity(2) and self._bot.has_capacity(2)

    def _chat(self, chat: str) -> AsyncLimiter:
        if chat not in self._chats:
            self._chats[chat] = AsyncLimiter(CHAT_BURST, CHAT_WINDOW_S)
            if len(self._chats) > MAX_CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(chat)
        return self._chats[chat]

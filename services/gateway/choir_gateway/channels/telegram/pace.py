"""Keep below Telegram's limits: 30 messages a second of a bot, one a second in a chat, with short bursts.

Used by calls.py and presence.py before anything is said; a 429 that comes all the same is honoured there.
"""

import asyncio
from collections import OrderedDict

from aiolimiter import AsyncLimiter

from choir_common.errors import Unavailable

# five at once, then 25 a second: within any second at most 30
BOT_BURST, BOT_WINDOW_S = 5, 0.2
# an answer of 20,000 characters goes at once; what follows, one a second
CHAT_BURST, CHAT_WINDOW_S = 5, 5.0
CHATS = 1000


class Pace:
    """The sendings of one bot."""

    def __init__(self) -> None:
        self._bot = AsyncLimiter(BOT_BURST, BOT_WINDOW_S)
        self._chats: OrderedDict[str, AsyncLimiter] = OrderedDict()

    async def wait(self, chat: str, deadline: float) -> None:
        """Wait for this chat's turn.

        Raises Unavailable when it does not come before `deadline` (of the loop's clock).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._chat(chat).acquire()
                await self._bot.acquire()
        except TimeoutError:
            raise Unavailable("Much is being said on this bot.", retry_after_s=1.0) from None

    def is_free(self, chat: str) -> bool:
        """Tell whether something of little weight may go now without keeping back an answer."""
        return self._chat(chat).has_capacity(2) and self._bot.has_capacity(2)

    def _chat(self, chat: str) -> AsyncLimiter:
        if chat not in self._chats:
            self._chats[chat] = AsyncLimiter(CHAT_BURST, CHAT_WINDOW_S)
            if len(self._chats) > CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(chat)
        return self._chats[chat]

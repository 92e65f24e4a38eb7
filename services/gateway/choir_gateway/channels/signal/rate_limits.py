"""Rate limits of one account: messages in all, and messages to one chat.

Signal does not document its limits. These are those of a person who writes fast, with bursts for long
answers.
"""

import asyncio
from collections import OrderedDict

from aiolimiter import AsyncLimiter

from choir_common.errors import Unavailable
from choir_common.i18n import _

ACCOUNT_BURST, ACCOUNT_WINDOW_S = 30, 15.0
CHAT_BURST, CHAT_WINDOW_S = 20, 20.0
MAX_CHATS = 1000
CARD_WINDOW_S = 10.0
"""Seconds between two states of progress cards in one chat: each is a message to all devices."""


class SignalRateLimiter:
    """Rate limiter of one account and its chats."""

    def __init__(self) -> None:
        self._account = AsyncLimiter(ACCOUNT_BURST, ACCOUNT_WINDOW_S)
        self._chats: OrderedDict[str, AsyncLimiter] = OrderedDict()
        self._next_card: dict[str, float] = {}

    async def wait(self, address: str, deadline: float) -> None:
        """Wait until a message to this chat is allowed.

        Raises Unavailable if that is not before `deadline` (in the event loop's time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._chat(address).acquire()
                await self._account.acquire()
        except TimeoutError:
            raise Unavailable(
                _("The rate limit of this account is exhausted."), retry_after_s=1.0
            ) from None

    def is_free(self, address: str) -> bool:
        """Return whether a card may be sent or changed now without delaying a reply."""
        is_due = self._next_card.get(address, 0.0) <= asyncio.get_running_loop().time()
        return is_due and self._chat(address).has_capacity(3) and self._account.has_capacity(3)

    def note_card(self, address: str) -> None:
        """Record that a card was sent or changed."""
        now = asyncio.get_running_loop().time()
        self._next_card = {it: until for it, until in self._next_card.items() if until > now}
        self._next_card[address] = now + CARD_WINDOW_S

    def _chat(self, address: str) -> AsyncLimiter:
        if address not in self._chats:
            self._chats[address] = AsyncLimiter(CHAT_BURST, CHAT_WINDOW_S)
            if len(self._chats) > MAX_CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(address)
        return self._chats[address]

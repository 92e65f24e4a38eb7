"""The calls that show typing and progress cards on Discord; `channels.activity` decides when.

Drafts of replies are not shown: Discord has no drafts, and a draft that is a message would stay as half an
answer after a crash.
"""

import asyncio
from typing import ClassVar

from choir_gateway.channels.discord.message_calls import DiscordMessageCalls, make_card_nonce
from choir_gateway.channels.discord.parts import make_card_part

CALL_TIMEOUT_S = 20.0


class DiscordActivityCalls:
    """Typing indicator and cards of one bot; implements `ActivityCalls`."""

    # Discord shows "typing" for ten seconds.
    typing_s: ClassVar[float] = 8.0

    def __init__(self, calls: DiscordMessageCalls, gateway: str) -> None:
        self._calls = calls
        self._gateway = gateway

    def is_free(self, user_id: str) -> bool:
        """Return True: the library keeps the rate limits."""
        return True

    async def show_typing(self, user_id: str) -> None:
        """Show for ten seconds that the bot is typing."""
        await self._calls.show_typing(user_id, deadline=_now() + self.typing_s)

    async def hide_typing(self, user_id: str) -> None:
        """Do nothing: the indicator ends by itself."""

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card without a notification; return the id of its message."""
        return await self._calls.send(
            user_id,
            make_card_part(text),
            deadline=_now() + CALL_TIMEOUT_S,
            nonce=make_card_nonce(self._gateway, key),
            is_silent=True,
        )

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card."""
        part = make_card_part(text)
        await self._calls.edit(user_id, message_id, part, deadline=_now() + CALL_TIMEOUT_S)


def _now() -> float:
    return asyncio.get_running_loop().time()

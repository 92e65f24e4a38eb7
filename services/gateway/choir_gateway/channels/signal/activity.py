"""The calls that show typing and progress cards on Signal; `channels.activity` decides when.

Drafts of replies are not shown: each state of a draft would be an edit, and Signal shows ten at most.
"""

import asyncio
from typing import ClassVar

from choir_gateway.channels.signal.api_client import SignalApi
from choir_gateway.channels.signal.message_calls import SignalMessageCalls
from choir_gateway.channels.signal.parts import make_card_part

CALL_TIMEOUT_S = 20.0


class SignalActivityCalls:
    """Typing indicator and cards of one account; implements `ActivityCalls`."""

    # Signal shows "typing" for fifteen seconds.
    typing_s: ClassVar[float] = 10.0

    def __init__(self, api: SignalApi, calls: SignalMessageCalls) -> None:
        self._api = api
        self._calls = calls

    def is_free(self, user_id: str) -> bool:
        """Return whether a card may be sent or changed now."""
        return self._calls.is_free(user_id)

    async def show_typing(self, user_id: str) -> None:
        """Show the indicator for fifteen seconds."""
        await self._api.set_typing(user_id, is_typing=True)

    async def hide_typing(self, user_id: str) -> None:
        """Hide the indicator."""
        await self._api.set_typing(user_id, is_typing=False)

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card; return the id of its message."""
        self._calls.note_card(user_id)
        return await self._calls.send(user_id, make_card_part(text), deadline=_deadline())

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card; after ten edits a new message is sent instead."""
        self._calls.note_card(user_id)
        await self._calls.edit(user_id, message_id, make_card_part(text), deadline=_deadline())


def _deadline() -> float:
    return asyncio.get_running_loop().time() + CALL_TIMEOUT_S

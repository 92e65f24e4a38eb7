"""The calls that show typing and progress cards on Matrix; `channels.activity` decides when.

Drafts of replies are not shown: a draft that is a message would stay as half an answer after a crash.
"""

import asyncio
from typing import ClassVar

from choir_gateway.channels.matrix.addresses import parse_group
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls, hash_key, make_relation
from choir_gateway.channels.matrix.parts import make_card_part
from choir_gateway.channels.matrix.rooms import RoomFinder

TYPING_S = 20.0
"""How long clients show "typing"; it is sent again before it ends."""
EDIT_S = 10.0
"""Synapse allows an account one event in five seconds by default, after ten, and replies need some."""
CALL_TIMEOUT_S = 30.0


class MatrixActivityCalls:
    """Typing notifications and cards of one account; implements `ActivityCalls`."""

    typing_s: ClassVar[float] = 15.0

    def __init__(self, calls: MatrixMessageCalls, rooms: RoomFinder, gateway: str) -> None:
        self._calls = calls
        self._rooms = rooms
        self._gateway = gateway

    def is_free(self, user_id: str) -> bool:
        """Return True: cards are edited rarely enough."""
        return True

    async def show_typing(self, user_id: str) -> None:
        """Show for some seconds that the bot is typing."""
        room_id = self._rooms.find(user_id)
        if room_id is not None:
            await self._calls.show_typing(room_id, TYPING_S, deadline=_now() + self.typing_s)

    async def hide_typing(self, user_id: str) -> None:
        """Show that the bot is no longer typing."""
        room_id = self._rooms.find(user_id)
        if room_id is not None:
            await self._calls.hide_typing(room_id, deadline=_now() + self.typing_s)

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card that does not ring; return the id of its message."""
        deadline = _now() + CALL_TIMEOUT_S
        group = parse_group(user_id)
        return await self._calls.send(
            await self._rooms.open(user_id, deadline),
            make_card_part(text),
            transaction_id=hash_key("card", self._gateway, key),
            deadline=deadline,
            relation=make_relation(group.thread, None, None) if group else None,
        )

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card."""
        deadline = _now() + CALL_TIMEOUT_S
        await self._calls.edit(
            await self._rooms.open(user_id, deadline),
            message_id,
            make_card_part(text),
            transaction_id=hash_key("edit", self._gateway, message_id, str(_now()), text),
            deadline=deadline,
        )


def _now() -> float:
    return asyncio.get_running_loop().time()

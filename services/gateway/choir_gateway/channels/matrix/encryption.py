"""Answer to messages in encrypted rooms, which the channel cannot read: once per room, with a way out."""

import asyncio

import structlog

from choir_common.errors import Unavailable
from choir_common.i18n import _, translate
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls, hash_key
from choir_gateway.channels.matrix.parts import split_note
from choir_gateway.channels.matrix.rooms import RoomFinder
from choir_gateway.channels.matrix.state_store import MatrixStateStore

log = structlog.get_logger("choir.gateway.matrix")

TIMEOUT_S = 45.0
WARNING = _(
    "This room is end-to-end encrypted, and Choir cannot read encrypted messages. {way_out} Your messages "
    "here do not reach the agent."
)
INVITED = _(
    "Please write in our room without encryption; if there was none, I have invited you to one."
)
GROUP_WAY_OUT = _("Please create a room without encryption for this group.")
ASKED_TO_INVITE = _("Please invite me to a room without encryption.")


class EncryptionWarning:
    """Sender of that answer for one account."""

    def __init__(
        self, calls: MatrixMessageCalls, rooms: RoomFinder, store: MatrixStateStore
    ) -> None:
        self._calls = calls
        self._rooms = rooms
        self._store = store

    async def warn(self, room_id: str, user_id: str, language: str) -> None:
        """Answer an encrypted message, if it is the room's first; after a failure the next one is."""
        if room_id in self._store.state.warned:
            return
        deadline = _now() + TIMEOUT_S
        way_out = INVITED
        try:
            await self._rooms.open(user_id, deadline, is_wanted=True)
        except (RefusedError, Unavailable) as error:
            log.warning("no room without encryption", error=str(error))
            way_out = ASKED_TO_INVITE
        await self._send(room_id, translate(WARNING.format(way_out=way_out), language), deadline)

    async def warn_group(self, room_id: str, language: str) -> None:
        """Answer an encrypted message of a group, if it is the room's first."""
        if room_id not in self._store.state.warned:
            text = translate(WARNING.format(way_out=GROUP_WAY_OUT), language)
            await self._send(room_id, text, _now() + TIMEOUT_S)

    async def _send(self, room_id: str, text: str, deadline: float) -> None:
        # The room is not one in which agents talk, so the text does not go through the deliveries.
        try:
            for part in split_note(text):
                await self._calls.send(
                    room_id,
                    part,
                    transaction_id=hash_key("encrypted", room_id),
                    deadline=deadline,
                )
        except (RefusedError, Unavailable) as error:
            log.warning("encrypted room not answered", error=str(error))
            return
        await self._store.note_warning(room_id)


def _now() -> float:
    return asyncio.get_running_loop().time()

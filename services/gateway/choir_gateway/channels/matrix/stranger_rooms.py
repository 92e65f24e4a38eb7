"""Rooms that the bot created to answer unknown users: it leaves those of users who were not let in.

Otherwise everybody who asks would leave a room behind, which each /sync at a start describes.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

from choir_common.errors import Unavailable
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.rooms import RoomDirectory, RoomFinder
from choir_gateway.channels.matrix.state_store import MatrixStateStore

log = structlog.get_logger("choir.gateway.matrix")

KEPT = timedelta(hours=2)
"""Longer than a pairing code is valid."""
INTERVAL_S = 600.0
CALL_TIMEOUT_S = 30.0


class StrangerRoomCleaner:
    """Cleaner of the rooms of one account."""

    def __init__(
        self, *, directory: RoomDirectory, rooms: RoomFinder, store: MatrixStateStore
    ) -> None:
        self._directory = directory
        self._rooms = rooms
        self._store = store

    async def run(self) -> None:
        """Leave rooms until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.leave_old_rooms(datetime.now(UTC) - KEPT)
            except Exception:  # outermost loop of the cleaner: messages must not stop
                log.exception("rooms of strangers not left")

    async def leave_old_rooms(self, created_before: datetime) -> None:
        """Leave the rooms from before a time whose users have no conversation."""
        for user_id, created_at in dict(self._store.state.strangers).items():
            if self._directory.is_user(user_id):
                await self._store.drop_stranger(user_id, has_room=True)
            elif created_at < created_before:
                await self._leave(user_id)

    async def _leave(self, user_id: str) -> None:
        room_id = self._store.state.rooms.get(user_id)
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        try:
            if room_id is not None:
                await self._rooms.leave(room_id, deadline)
        except Unavailable as error:
            log.info("room of a stranger not left yet", room=room_id, error=error.message)
            return
        except RefusedError as refusal:
            log.info("room of a stranger left already", room=room_id, error=refusal.text)
        await self._store.drop_stranger(user_id, has_room=False)

"""Queue of control's notes to users: the result of a command, or that nobody answers soon.

The notes of a user are sent in order, and neither events nor other users wait for them. They are in memory
only: the effects of a command are durable, and its result can be requested again.
"""

import asyncio
from collections import deque
from typing import Protocol

import structlog

log = structlog.get_logger("choir.gateway")

MAX_PENDING = 50
"""Per user. If more commands are typed while the messenger accepts nothing, the later notes are dropped."""


class NoteSender(Protocol):
    """The sender of a channel."""

    async def send_note(self, user_id: str, text: str) -> None:
        """Send a note to a user."""
        ...


class NoteQueue:
    """Queues of the pending notes of one bot, by user."""

    def __init__(self, sender: NoteSender) -> None:
        self._sender = sender
        self._pending: dict[str, deque[str]] = {}
        self._users: asyncio.Queue[str] = asyncio.Queue()

    def add(self, user_id: str, text: str) -> None:
        """Queue a note; returns at once."""
        notes = self._pending.get(user_id)
        if notes is None:
            self._pending[user_id] = deque([text])
            self._users.put_nowait(user_id)
        elif len(notes) < MAX_PENDING:
            notes.append(text)
        else:
            log.warning("note dropped", user_id=user_id, waiting=len(notes))

    async def run(self) -> None:
        """Send notes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._send_all(await self._users.get()))

    async def _send_all(self, user_id: str) -> None:
        notes = self._pending[user_id]
        while notes:
            try:
                await self._sender.send_note(user_id, notes.popleft())
            except Exception:  # outermost loop of the notes: continue with the next
                log.exception("note not sent", user_id=user_id)
        del self._pending[user_id]

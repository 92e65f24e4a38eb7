"""Queue of control's notes to users: the result of a command, or that nobody answers soon.

The notes of a chat are sent in
order, and neither updates nor other chats wait for them. They are in memory only: the effects of a
command are durable, and its result can be requested again.
"""

import asyncio
from collections import deque

import structlog

from choir_gateway.channels.telegram.sender import MessageSender

log = structlog.get_logger("choir.gateway.telegram")

MAX_PENDING = 50
"""Per chat. If a user types more commands while Telegram accepts nothing, the later notes are dropped."""


class NoteQueue:
    """Queues of the pending notes of one bot, by user."""

    def __init__(self, sender: MessageSender) -> None:
        self._sender = sender
        self._waiting: dict[str, deque[str]] = {}
        self._begun: asyncio.Queue[str] = asyncio.Queue()

    def add(self, user_id: str, text: str) -> None:
        """Queue a note; returns at once."""
        waiting = self._waiting.get(user_id)
        if waiting is None:
            self._waiting[user_id] = deque([text])
            self._begun.put_nowait(user_id)
        elif len(waiting) < MAX_PENDING:
            waiting.append(text)
        else:
            log.warning("note dropped", user_id=user_id, waiting=len(waiting))

    async def run(self) -> None:
        """Send notes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._send_all(await self._begun.get()))

    async def _send_all(self, user_id: str) -> None:
        waiting = self._waiting[user_id]
        while waiting:
            try:
                await self._sender.send_note(user_id, waiting.popleft())
            except Exception:  # outermost loop of the notes: continue with the next
                log.exception("note not sent", user_id=user_id)
        del self._waiting[user_id]

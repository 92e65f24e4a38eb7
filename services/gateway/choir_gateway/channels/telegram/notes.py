"""Say what control notes to a message: what a command did, or that nobody answers soon.

Told by channel.py, which runs this beside the channel; sending.py comes next. The notes of a chat go in
order, and neither updates nor other chats wait for them. They are kept in memory: what a command did is
durable, and can be asked for again.
"""

import asyncio
from collections import deque

import structlog

from choir_gateway.channels.telegram.sending import Sending

log = structlog.get_logger("choir.gateway.telegram")

MOST_WAITING = 50
"""In one chat: a person who types more commands while Telegram takes nothing sees the first of them."""


class Notes:
    """The notes of one bot that are still to be said, by user."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._waiting: dict[str, deque[str]] = {}
        self._begun: asyncio.Queue[str] = asyncio.Queue()

    def add(self, user_id: str, text: str) -> None:
        """Say something soon; returns at once."""
        waiting = self._waiting.get(user_id)
        if waiting is None:
            self._waiting[user_id] = deque([text])
            self._begun.put_nowait(user_id)
        elif len(waiting) < MOST_WAITING:
            waiting.append(text)
        else:
            log.warning("note dropped", user_id=user_id, waiting=len(waiting))

    async def run(self) -> None:
        """Say them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._say_all(await self._begun.get()))

    async def _say_all(self, user_id: str) -> None:
        waiting = self._waiting[user_id]
        while waiting:
            try:
                await self._sending.notify(user_id, waiting.popleft())
            except Exception:  # the outermost loop of notes: the next may fare better
                log.exception("note not said", user_id=user_id)
        del self._waiting[user_id]

"""The update queue of one bot, with Telegram's offset rule: asking for N confirms all before N.

methods.py reads it for getUpdates; user.py and server.py put updates in.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count

from choir_common.testing.telegram.faults import BotApiError
from choir_common.wire.json import JsonObject

CONFLICT = "Conflict: terminated by other getUpdates request; make sure only one bot instance runs"


@dataclass(frozen=True, slots=True)
class QueuedUpdate:
    """One update as Telegram would send it; `kind` is its key (`message`, `callback_query`)."""

    update_id: int
    kind: str
    body: JsonObject

    def as_json(self) -> JsonObject:
        """Give the update the shape of the Bot API."""
        return {"update_id": self.update_id, self.kind: self.body}


@dataclass(slots=True)
class Mailbox:
    """Updates not yet confirmed, and the history that lets a test deliver one again."""

    pending: list[QueuedUpdate] = field(default_factory=list)
    history: list[QueuedUpdate] = field(default_factory=list)
    repeats: list[QueuedUpdate] = field(default_factory=list)
    _ids: "count[int]" = field(default_factory=lambda: count(1000))
    _arrival: asyncio.Event = field(default_factory=asyncio.Event)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _poll: int = 0

    @property
    def polls(self) -> int:
        """How many polls have been begun."""
        return self._poll

    def put(self, kind: str, body: JsonObject) -> int:
        """Queue a new update and give its id."""
        update = QueuedUpdate(next(self._ids), kind, body)
        self.history.append(update)
        self.pending.append(update)
        self._arrival.set()
        return update.update_id

    def repeat(self, update_id: int) -> None:
        """Deliver an update once more under its old id, whatever the offset says."""
        self.repeats.append(next(u for u in self.history if u.update_id == update_id))
        self._arrival.set()

    def is_confirmed(self, update_id: int) -> bool:
        """Tell whether the bot has moved its offset past this update."""
        return all(u.update_id != update_id for u in self.pending)

    async def confirmed(self, update_id: int) -> None:
        """Wait until the bot has moved its offset past this update."""
        while not self.is_confirmed(update_id):
            self._moved.clear()
            await self._moved.wait()

    async def take(
        self, offset: int, limit: int, wait_s: float, kinds: Collection[str]
    ) -> list[QueuedUpdate]:
        """Wait up to `wait_s` for updates from `offset` on.

        Raises BotApiError 409 when a second reader comes: Telegram lets only one poll at a time.
        """
        self._poll += 1
        mine = self._poll
        self._arrival.set()  # wakes an earlier poll, which then finds itself replaced
        self._confirm(offset)
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            if mine != self._poll:
                raise BotApiError(409, CONFLICT)
            again, self.repeats = self.repeats, []
            found = again + [u for u in self.pending if not kinds or u.kind in kinds][:limit]
            left = deadline - asyncio.get_running_loop().time()
            if found or left <= 0:
                return found
            await self._wait(left)

    async def next_push(self, kinds: Collection[str]) -> QueuedUpdate:
        """Wait for the oldest update that a webhook has not taken; it stays until `taken`."""
        while True:
            found = self.repeats or [u for u in self.pending if not kinds or u.kind in kinds]
            if found:
                return found[0]
            await self.stirred()

    async def stirred(self) -> None:
        """Wait until something came, or updates are to leave in another way."""
        self._arrival.clear()
        await self._arrival.wait()

    def taken(self, update: QueuedUpdate) -> None:
        """Let go of an update that a webhook answered 200 to."""
        if update in self.repeats:
            self.repeats.remove(update)
        else:
            self.pending.remove(update)
        self._moved.set()

    def wake(self) -> None:
        """Let who waits for updates look again how they are to leave."""
        self._arrival.set()

    def _confirm(self, offset: int) -> None:
        if offset > 0:
            self.pending = [u for u in self.pending if u.update_id >= offset]
        elif offset < 0:
            self.pending = self.pending[offset:]
        self._moved.set()

    async def _wait(self, seconds: float) -> None:
        self._arrival.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._arrival.wait()
        except TimeoutError:
            return

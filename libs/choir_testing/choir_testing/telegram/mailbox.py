"""Update queue of one bot, with Telegram's offset rule: a request for N confirms all updates before N.

`methods` reads it for getUpdates; `user` and `server` add updates.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count

from choir_common.wire.model import JsonObject
from choir_testing.telegram.faults import BotApiError

CONFLICT = "Conflict: terminated by other getUpdates request; make sure only one bot instance runs"


@dataclass(frozen=True, slots=True)
class QueuedUpdate:
    """One update as Telegram would send it; `kind` is its key (`message`, `callback_query`)."""

    update_id: int
    kind: str
    body: JsonObject

    def as_json(self) -> JsonObject:
        """Return the update as Bot API JSON."""
        return {"update_id": self.update_id, self.kind: self.body}


@dataclass(slots=True)
class UpdateQueue:
    """Unconfirmed updates, and the history from which a test can repeat one."""

    pending: list[QueuedUpdate] = field(default_factory=list)
    history: list[QueuedUpdate] = field(default_factory=list)
    repeats: list[QueuedUpdate] = field(default_factory=list)
    _ids: "count[int]" = field(default_factory=lambda: count(1000))
    _arrival: asyncio.Event = field(default_factory=asyncio.Event)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _poll: int = 0

    @property
    def poll_count(self) -> int:
        """Number of polls started."""
        return self._poll

    def put(self, kind: str, body: JsonObject) -> int:
        """Queue a new update and return its id."""
        update = QueuedUpdate(next(self._ids), kind, body)
        self.history.append(update)
        self.pending.append(update)
        self._arrival.set()
        return update.update_id

    def repeat(self, update_id: int) -> None:
        """Deliver an update again under its old id, regardless of the offset."""
        self.repeats.append(next(u for u in self.history if u.update_id == update_id))
        self._arrival.set()

    def is_confirmed(self, update_id: int) -> bool:
        """Return whether the bot has moved its offset past this update."""
        return all(u.update_id != update_id for u in self.pending)

    async def confirmed(self, update_id: int) -> None:
        """Wait until the bot has moved its offset past this update."""
        while not self.is_confirmed(update_id):
            self._moved.clear()
            await self._moved.wait()

    async def take(
        self, offset: int, limit: int, wait_s: float, kinds: Collection[str]
    ) -> list[QueuedUpdate]:
        """Wait up to `wait_s` seconds for updates from `offset` on.

        Raises BotApiError 409 if a second reader starts: Telegram allows only one poll at a time.
        """
        self._poll += 1
        mine = self._poll
        self._arrival.set()  # wakes an earlier poll, which then fails with 409
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
        """Wait for the oldest update that the webhook has not accepted; `taken` removes it."""
        while True:
            found = self.repeats or [u for u in self.pending if not kinds or u.kind in kinds]
            if found:
                return found[0]
            await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait until an update arrives, or the delivery method changes."""
        self._arrival.clear()
        await self._arrival.wait()

    def taken(self, update: QueuedUpdate) -> None:
        """Remove an update that the webhook accepted."""
        if update in self.repeats:
            self.repeats.remove(update)
        else:
            self.pending.remove(update)
        self._moved.set()

    def wake(self) -> None:
        """Wake waiting tasks after the delivery method has changed."""
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

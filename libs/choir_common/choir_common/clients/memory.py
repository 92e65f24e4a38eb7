"""Client of the memory service over NATS; used by control's host tools."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_recall import ReadHints, ReadReminders, Reminders, ToolHints
from choir_common.wire.memory_search import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_common.wire.messages import Empty

TIMEOUT_S = 10.0
HINTS_TIMEOUT_S = 2.0
"""Short, because a failed call waits for the hints and can do without them."""
REMINDERS_TIMEOUT_S = 1.5
"""Short, because a user's message waits for the reminders."""


class MemoryClient(Protocol):
    """An agent's long-term memory."""

    async def ensure(self, space: EnsureSpace) -> None: ...

    async def query(self, query: MemoryQuery) -> MemoryHits: ...

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def receipt(self, asked: ReadSearchReceipt) -> SearchReceipt: ...

    async def status(self) -> MemoryStatus: ...

    async def hints(self, wanted: ReadHints) -> ToolHints: ...

    async def remind(self, wanted: ReadReminders) -> Reminders: ...


class NatsMemoryClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ensure(self, space: EnsureSpace) -> None:
        """Create the agent's schema and role if missing."""
        await self._bus.request(subjects.ensure_memory(), space, Empty, TIMEOUT_S)

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Search; raises NotFound if the target agent has no memory, InvalidRequest for an invalid query."""
        return await self._bus.request(subjects.query_memory(), query, MemoryHits, TIMEOUT_S)

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; repeating a call_id changes nothing and returns the same response."""
        return await self._bus.request(subjects.upsert_memory(), write, MemoryWritten, TIMEOUT_S)

    async def receipt(self, asked: ReadSearchReceipt) -> SearchReceipt:
        """Return the record of a search; raises NotFound if it is unknown or expired."""
        return await self._bus.request(subjects.memory_receipt(), asked, SearchReceipt, TIMEOUT_S)

    async def status(self) -> MemoryStatus:
        """Return the state of the embedding pipeline."""
        return await self._bus.request(subjects.memory_status(), Empty(), MemoryStatus, TIMEOUT_S)

    async def hints(self, wanted: ReadHints) -> ToolHints:
        """Return similar past failures of the same tool, resolved ones first."""
        return await self._bus.request(subjects.memory_hints(), wanted, ToolHints, HINTS_TIMEOUT_S)

    async def remind(self, wanted: ReadReminders) -> Reminders:
        """Return the memories to show the model with a user's message."""
        subject = subjects.memory_reminders()
        return await self._bus.request(subject, wanted, Reminders, REMINDERS_TIMEOUT_S)

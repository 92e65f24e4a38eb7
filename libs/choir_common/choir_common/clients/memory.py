"""Call the memory service over the bus; used by control's host tools."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memories import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    ReadReceipt,
    Receipt,
)
from choir_common.wire.memory_hints import HintsWanted, ToolHints
from choir_common.wire.memory_reminders import Reminders, RemindersWanted
from choir_common.wire.messages import Nothing

TIMEOUT_S = 10.0
HINTS_TIMEOUT_S = 2.0
"""A failed call waits for it, and can do without."""
REMINDERS_TIMEOUT_S = 1.5
"""So does a user's message."""


class Memory(Protocol):
    """An agent's long-term memory."""

    async def ensure(self, space: EnsureSpace) -> None: ...

    async def query(self, query: MemoryQuery) -> MemoryHits: ...

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def receipt(self, asked: ReadReceipt) -> Receipt: ...

    async def status(self) -> MemoryStatus: ...

    async def hints(self, wanted: HintsWanted) -> ToolHints: ...

    async def remind(self, wanted: RemindersWanted) -> Reminders: ...


class BusMemory:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ensure(self, space: EnsureSpace) -> None:
        """Make the agent's schema and role if missing."""
        await self._bus.ask(subjects.ensure_memory(), space, Nothing, TIMEOUT_S)

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Search; raises NotFound when the target agent has no memory, BadInput for a bad query."""
        return await self._bus.ask(subjects.query_memory(), query, MemoryHits, TIMEOUT_S)

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; repeating the same call_id changes nothing and answers the same."""
        return await self._bus.ask(subjects.upsert_memory(), write, MemoryWritten, TIMEOUT_S)

    async def receipt(self, asked: ReadReceipt) -> Receipt:
        """Return what a search did; raises NotFound when it is not kept (any more)."""
        return await self._bus.ask(subjects.memory_receipt(), asked, Receipt, TIMEOUT_S)

    async def status(self) -> MemoryStatus:
        """Tell how the embedding pipeline stands."""
        return await self._bus.ask(subjects.memory_status(), Nothing(), MemoryStatus, TIMEOUT_S)

    async def hints(self, wanted: HintsWanted) -> ToolHints:
        """Return like failures of the same tool, those that were resolved first."""
        return await self._bus.ask(subjects.memory_hints(), wanted, ToolHints, HINTS_TIMEOUT_S)

    async def remind(self, wanted: RemindersWanted) -> Reminders:
        """Return what the agent should have in mind when it answers this."""
        subject = subjects.memory_reminders()
        return await self._bus.ask(subject, wanted, Reminders, REMINDERS_TIMEOUT_S)

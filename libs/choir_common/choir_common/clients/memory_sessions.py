"""Hand sessions to the memory service over the bus; used by control's archivist and by imports."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_sessions import (
    Archived,
    ArchivePage,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)

TIMEOUT_S = 30.0
"""A page of long texts takes a second or two to cut into words on a busy machine."""


class SessionMemory(Protocol):
    """Where sessions become memory."""

    async def record(self, units: RecordUnits) -> UnitsRecorded: ...

    async def archive(self, page: ArchivePage) -> Archived: ...

    async def erase(self, session: EraseSession) -> SessionErased: ...


class BusSessionMemory:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def record(self, units: RecordUnits) -> UnitsRecorded:
        """Write units of a session; repeating it changes nothing."""
        return await self._bus.ask(subjects.record_units(), units, UnitsRecorded, TIMEOUT_S)

    async def archive(self, page: ArchivePage) -> Archived:
        """Hand on the next events; what memory has is skipped, and a gap is answered by where it is."""
        return await self._bus.ask(subjects.archive_session(), page, Archived, TIMEOUT_S)

    async def erase(self, session: EraseSession) -> SessionErased:
        """Forget a session for good; repeating it changes nothing."""
        return await self._bus.ask(subjects.erase_session(), session, SessionErased, TIMEOUT_S)

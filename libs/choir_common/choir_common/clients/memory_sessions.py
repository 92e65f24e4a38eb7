"""Client that sends sessions to the memory service over NATS; used by control's archiving and by imports."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_sessions import (
    ArchivePage,
    ArchiveProgress,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)

TIMEOUT_S = 30.0
"""Tokenizing a page of long texts takes a second or two on a busy machine."""


class SessionMemoryClient(Protocol):
    """The part of memory that stores sessions."""

    async def record(self, units: RecordUnits) -> UnitsRecorded: ...

    async def archive(self, page: ArchivePage) -> ArchiveProgress: ...

    async def erase(self, session: EraseSession) -> SessionErased: ...


class NatsSessionMemoryClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def record(self, units: RecordUnits) -> UnitsRecorded:
        """Write units of a session; repeating it changes nothing."""
        return await self._bus.request(subjects.record_units(), units, UnitsRecorded, TIMEOUT_S)

    async def archive(self, page: ArchivePage) -> ArchiveProgress:
        """Send the next events; known ones are skipped, and a gap returns the stored position."""
        return await self._bus.request(subjects.archive_session(), page, ArchiveProgress, TIMEOUT_S)

    async def erase(self, session: EraseSession) -> SessionErased:
        """Erase a session permanently; repeating it changes nothing."""
        return await self._bus.request(subjects.erase_session(), session, SessionErased, TIMEOUT_S)

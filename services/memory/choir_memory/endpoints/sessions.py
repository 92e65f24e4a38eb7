"""Endpoints that record, archive and erase sessions (`choir_common.clients.memory`).

Built by `app`; next are `sessions.record`, `sessions.archive` and `sessions.erase`.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_sessions import (
    ArchivePage,
    ArchiveProgress,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)
from choir_memory.endpoints.retry import retry_unavailable
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.erasure import SessionEraser
from choir_memory.sessions.recorder import UnitRecorder


@dataclass(frozen=True, slots=True)
class SessionEndpoints:
    """Endpoints for control, and for tools that import conversations."""

    recorder: UnitRecorder
    archive: SessionArchive
    eraser: SessionEraser

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.record_units(), RecordUnits, self._record),
            Endpoint(subjects.archive_session(), ArchivePage, self._archive),
            Endpoint(subjects.erase_session(), EraseSession, self._erase),
        )

    async def _record(self, given: RecordUnits) -> UnitsRecorded:
        return await retry_unavailable(lambda: self.recorder.record(given))

    async def _archive(self, page: ArchivePage) -> ArchiveProgress:
        return await retry_unavailable(lambda: self.archive.take(page))

    async def _erase(self, asked: EraseSession) -> SessionErased:
        return await retry_unavailable(lambda: self.eraser.erase(asked))

"""Endpoints that record, archive and erase sessions (`choir_common.clients.memory_sessions`).

Built by `app`; next are `sessions.record`, `sessions.archive` and `sessions.erase`.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_sessions import (
    Archived,
    ArchivePage,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)
from choir_memory.endpoints.patience import patiently
from choir_memory.sessions.archive import Archive
from choir_memory.sessions.erase import Eraser
from choir_memory.sessions.record import Recorder


@dataclass(frozen=True, slots=True)
class SessionDoor:
    """Endpoints for control, and for tools that import conversations."""

    recorder: Recorder
    archive: Archive
    eraser: Eraser

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.record_units(), RecordUnits, self._record),
            Endpoint(subjects.archive_session(), ArchivePage, self._archive),
            Endpoint(subjects.erase_session(), EraseSession, self._erase),
        )

    async def _record(self, given: RecordUnits) -> UnitsRecorded:
        return await patiently(lambda: self.recorder.record(given))

    async def _archive(self, page: ArchivePage) -> Archived:
        return await patiently(lambda: self.archive.take(page))

    async def _erase(self, asked: EraseSession) -> SessionErased:
        return await patiently(lambda: self.eraser.erase(asked))

"""What sessions leave behind (`choir_common.clients.memory_sessions`).

Built by `app`; next is `sessions.record`.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_sessions import RecordUnits, UnitsRecorded
from choir_memory.endpoints.patience import patiently
from choir_memory.sessions.record import Recorder


@dataclass(frozen=True, slots=True)
class SessionDoor:
    """Answers what control, and whoever imports conversations, tells of sessions."""

    recorder: Recorder

    def table(self) -> tuple[Endpoint, ...]:
        """Return the subjects it answers."""
        return (Endpoint(subjects.record_units(), RecordUnits, self._record),)

    async def _record(self, given: RecordUnits) -> UnitsRecorded:
        return await patiently(lambda: self.recorder.record(given))

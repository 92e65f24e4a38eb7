"""In-memory fake of the session side of the memory service.

Used by tests of control. It passes the contract suite of the real service (tests/contract/memory), but does
not process the sessions any further.
"""

import itertools
from dataclasses import dataclass, field

from choir_common.errors import InvalidRequest, NotFound
from choir_common.wire.memory_sessions import (
    ArchivePage,
    ArchiveProgress,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)


@dataclass(slots=True)
class _Session:
    revs: list[int] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    erased: bool = False


class FakeSessionMemory:
    """Sessions of any number of agents; `pages` lists the received pages in order."""

    def __init__(self) -> None:
        self.pages: list[ArchivePage] = []
        self._sessions: dict[tuple[str, str], _Session] = {}

    def revisions(self, agent_id: str, session_id: str) -> list[int]:
        """Return the revisions of the accepted events, each once."""
        return self._session(agent_id, session_id).revs

    def forget(self) -> None:
        """Lose everything, like a database restored from an old backup."""
        self._sessions.clear()

    async def archive(self, page: ArchivePage) -> ArchiveProgress:
        """Accept new events; a gap changes nothing."""
        self.pages.append(page)
        for before, after in itertools.pairwise(page.events):
            if after.rev != before.rev + 1:
                raise InvalidRequest(f"Event {after.rev} does not follow event {before.rev}.")
        session = self._session(page.agent_id, page.session_id)
        through = session.revs[-1] if session.revs else 0
        fresh = [event.rev for event in page.events if event.rev > through]
        gap = bool(fresh) and fresh[0] != through + 1
        if not session.ended and not gap:
            session.revs += fresh
            session.ended = page.end is not None
        return ArchiveProgress(
            through_rev=session.revs[-1] if session.revs else 0, ended=session.ended, promoted=()
        )

    async def record(self, units: RecordUnits) -> UnitsRecorded:
        """Store the text of each unit."""
        session = self._session(units.agent_id, units.session_id)
        if session.erased:
            raise NotFound(f"Session {units.session_id} was erased from memory.")
        news = [unit for unit in units.units if session.units.get(unit.id) != unit.text]
        session.units |= {unit.id: unit.text for unit in news}
        ids = tuple(f"{units.session_id}/{unit.id}" for unit in units.units)
        return UnitsRecorded(document_ids=ids, written=len(news))

    async def erase(self, session: EraseSession) -> SessionErased:
        """Erase a known session."""
        if (session.agent_id, session.session_id) not in self._sessions:
            raise NotFound(
                f"There is no session {session.session_id} in the memory of {session.agent_id}."
            )
        known = self._session(session.agent_id, session.session_id)
        count = 0 if known.erased else len(known.units)
        known.units.clear()
        known.erased = True
        return SessionErased(documents=count)

    def _session(self, agent_id: str, session_id: str) -> _Session:
        return self._sessions.setdefault((agent_id, session_id), _Session())

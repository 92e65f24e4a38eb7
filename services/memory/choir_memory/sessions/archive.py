"""Archive a session's events into mid-term memory, page by page.

Called by `endpoints.sessions` on control's behalf; next are `chunks`, `documents.store` and the embedding
queue, and `promote` at the end of a session. A page is one transaction: its units, their embedding jobs
and the session's progress are committed together, so a crash at any point loses and duplicates nothing.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.errors import BadInput
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.events import Event
from choir_common.wire.memory_sessions import Archived, ArchivePage
from choir_memory.documents.row import Row, document_id
from choir_memory.documents.store import DocumentStore, prepare
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.schema.spaces import Spaces
from choir_memory.schema.store import resume_service_role, take_agent_role
from choir_memory.sessions.chunks import Chunk, Cutter, read_unsettled, write_unsettled
from choir_memory.sessions.inherited import Inherited
from choir_memory.sessions.promote import Promotion
from choir_memory.sessions.store import SessionState, SessionStore, Topic
from choir_memory.sessions.troubles import Trouble


@dataclass(frozen=True, slots=True)
class Story:
    """An ended session with its agent's summary."""

    session_id: str
    summary: str
    began_at: datetime
    inherited: Inherited


Conclude = Callable[[Connection, str, Story], Awaitable[Sequence[UUID]]]
Learn = Callable[[Connection, str, str, Sequence[Trouble]], Awaitable[Sequence[UUID]]]


@dataclass(frozen=True, slots=True)
class Archive:
    """Writer of mid-term memory; `announce` reports to the embedding queue how many documents were queued."""

    database: Database
    spaces: Spaces
    promotion: Promotion
    announce: Callable[[int], None]
    learn: Learn
    """Stores failures of tools in the transaction of the page; returns the ids that need a vector."""
    conclude: Conclude
    """Stores the episode of an ended session in the same way."""

    async def take(self, page: ArchivePage) -> Archived:
        """Store the new events of a page and return the session's progress; a gap changes nothing.

        Raises BadInput when the revisions of the page's events are not consecutive.
        """
        check(page.events)
        await self.spaces.ensure(page.agent_id)
        async with self.database.transaction() as held:
            state = await SessionStore(held, page.agent_id).hold(page.session_id, page.started_at)
            through, ended, queued = await self._store(held, page, state)
        self.announce(queued)
        # In transactions of its own. If it is interrupted, control sends the page again and it resumes.
        promoted: tuple[str, ...] = ()
        if ended and page.end is not None:
            keep = page.end.mid_term_sessions
            promoted = await self.promotion.promote(page.agent_id, keep)
        return Archived(through_rev=through, ended=ended, promoted=promoted)

    async def _store(
        self, held: Connection, page: ArchivePage, state: SessionState
    ) -> tuple[int, bool, int]:
        """Return the session's last revision, whether it has ended, and how many documents were queued."""
        last = page.events[-1].rev if page.events else state.through_rev
        if state.erased:
            # acknowledged without being stored, so that control does not send it again
            return max(last, state.through_rev), page.end is not None, 0
        fresh = [event for event in page.events if event.rev > state.through_rev]
        gap = bool(fresh) and fresh[0].rev != state.through_rev + 1
        if state.ended_at is not None or gap:
            return state.through_rev, state.ended_at is not None, 0
        cutter = Cutter(page.agent_id, read_unsettled(state.unsettled))
        for event in fresh:
            cutter.take(event)
        if page.end is not None:
            cutter.finish()
        through = max(last, state.through_rev)
        queued = await self._write(held, page, cutter.made)
        queued += await self._learn(held, page, cutter.troubles.ended)
        store = SessionStore(held, page.agent_id)
        await store.advance(page.session_id, through, write_unsettled(cutter.unsettled))
        if cutter.ending is not None:
            topics = [Topic(title, text) for title, text in cutter.ending.topics]
            await store.sum_up(page.session_id, cutter.ending.summary, topics)
        if page.end is not None:
            summary = cutter.ending.summary if cutter.ending is not None else state.summary
            story = Story(page.session_id, summary, page.started_at, cutter.unsettled.inherited)
            queued += await self._conclude(held, page, story)
            await store.end(page.session_id, page.end.at)
            if cutter.unsettled.next_index == 0 and not await self._has_units(held, page):
                # an empty session must not displace one with content from mid-term memory
                await store.promoted(page.session_id)
        return through, page.end is not None, queued

    async def _write(self, held: Connection, page: ArchivePage, made: Sequence[Chunk]) -> int:
        if not made:
            return 0
        prepared = await prepare([_row(page.session_id, chunk) for chunk in made])
        await take_agent_role(held, page.agent_id)
        written = await DocumentStore(held, page.agent_id).put(prepared)
        await resume_service_role(held)
        await enqueue_all(held, page.agent_id, "session", written)
        return len(written)

    async def _has_units(self, held: Connection, page: ArchivePage) -> bool:
        """Return whether units of the session were recorded directly, without a log."""
        await take_agent_role(held, page.agent_id)
        units = await DocumentStore(held, page.agent_id).ids_of_session(page.session_id)
        await resume_service_role(held)
        return bool(units)

    async def _learn(self, held: Connection, page: ArchivePage, ended: Sequence[Trouble]) -> int:
        if not ended:
            return 0
        await take_agent_role(held, page.agent_id)
        written = await self.learn(held, page.agent_id, page.session_id, ended)
        await resume_service_role(held)
        await enqueue_all(held, page.agent_id, "knowledge", written)
        return len(written)

    async def _conclude(self, held: Connection, page: ArchivePage, story: Story) -> int:
        if not story.summary.strip():
            return 0
        await take_agent_role(held, page.agent_id)
        written = await self.conclude(held, page.agent_id, story)
        await resume_service_role(held)
        await enqueue_all(held, page.agent_id, "knowledge", written)
        return len(written)


def check(events: Sequence[Event]) -> None:
    """Raise BadInput unless the events' revisions are consecutive."""
    for before, after in itertools.pairwise(events):
        if after.rev != before.rev + 1:
            raise BadInput(f"Event {after.rev} does not follow event {before.rev}.")


def _row(session_id: str, chunk: Chunk) -> Row:
    return Row(
        document_id=document_id(session_id, "rev", str(chunk.first_rev), str(chunk.part)),
        session_id=session_id,
        tier="mid_term",
        chunk_index=chunk.index,
        kind=chunk.kind,
        text=chunk.text,
        happened_at=datetime.fromisoformat(chunk.at),
        ended_at=datetime.fromisoformat(chunk.ended_at),
        speaker=chunk.speaker,
        first_rev=chunk.first_rev,
        last_rev=chunk.last_rev,
        origin=chunk.origin,
        trust=chunk.trust,
        metadata=chunk.metadata,
    )

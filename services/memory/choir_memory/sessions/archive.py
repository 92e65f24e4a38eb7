"""Archive a session's events into mid-term memory, page by page.

A page is one transaction: its units, their embedding jobs and the session's progress are committed
together, so a crash at any point loses and duplicates nothing. At its end a session may be promoted.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, assert_never
from uuid import UUID

from choir_common.errors import InvalidRequest
from choir_common.lanes import EDGE_LANE
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.events import Event
from choir_common.wire.memory_sessions import ArchivePage, ArchiveProgress
from choir_memory.documents.model import Conversations, UnitRow, document_id
from choir_memory.documents.store import DocumentStore, prepare_units
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.schema.extraction_queue_store import enqueue_extraction
from choir_memory.schema.reader_store import write_readers
from choir_memory.schema.store import SpaceRegistry, resume_service_role, take_agent_role
from choir_memory.sessions.failure_tracker import EndedFailure
from choir_memory.sessions.forgotten_period_store import (
    ForgottenPeriod,
    lock_against_erasure,
    read_forgotten_periods,
)
from choir_memory.sessions.promotion import SessionPromoter
from choir_memory.sessions.splitter_state import parse_state, render_state
from choir_memory.sessions.store import SessionState, SessionStore, StoredConversation, StoredTopic
from choir_memory.sessions.trust import Inherited
from choir_memory.sessions.units import AgentSummary, Unit, UnitSplitter


@dataclass(frozen=True, slots=True)
class EndedSession:
    """An ended session with its agent's summaries."""

    session_id: str
    summary: str
    began_at: datetime
    inherited: Inherited
    lane_trust: int
    """The least trust of what its edge lane had read when it wrote the summary."""
    conversations: Conversations
    """The home conversation, which alone `summary` is about."""
    further: tuple[StoredConversation, ...] = ()


class FailureRecorder(Protocol):
    """Store for failures of tools; implemented by `tool_errors`."""

    async def store_failures(
        self,
        connection: Connection,
        agent_id: str,
        session_id: str,
        failures: Sequence[EndedFailure],
    ) -> Sequence[UUID]:
        """Store failures under the agent's role; return the ids that need a vector."""
        ...


class EpisodeRecorder(Protocol):
    """Store for episodes of ended sessions; implemented by `summaries`."""

    async def store_episode(
        self, connection: Connection, agent_id: str, session: EndedSession
    ) -> Sequence[UUID]:
        """Store an episode under the agent's role; return the ids that need a vector."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchive:
    """Writer of mid-term memory; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    promotion: SessionPromoter
    queue: EmbeddingQueue
    failures: FailureRecorder
    episodes: EpisodeRecorder

    async def take(self, page: ArchivePage) -> ArchiveProgress:
        """Store the new events of a page and return the session's progress; a gap changes nothing.

        Raises InvalidRequest when the revisions of the page's events are not consecutive.
        """
        check_consecutive(page.events)
        await self.spaces.ensure(page.agent_id)
        async with self.database.transaction() as connection:
            await lock_against_erasure(connection, page.agent_id)
            state = await SessionStore(connection, page.agent_id).get_or_create(
                page.session_id, page.started_at
            )
            await write_readers(connection, page.agent_id, page.readers)
            through_rev, has_ended, queued_count = await self._store_page(connection, page, state)
        self.queue.notify(queued_count)
        # In transactions of its own. If it is interrupted, control sends the page again and it resumes.
        promoted: tuple[str, ...] = ()
        if has_ended and page.end is not None:
            keep = page.end.mid_term_sessions
            promoted = await self.promotion.promote(page.agent_id, keep)
        return ArchiveProgress(through_rev=through_rev, ended=has_ended, promoted=promoted)

    async def _store_page(
        self, connection: Connection, page: ArchivePage, state: SessionState
    ) -> tuple[int, bool, int]:
        """Return the session's last revision, whether it has ended, and how many documents were queued."""
        last = page.events[-1].rev if page.events else state.through_rev
        if state.erased:
            # acknowledged without being stored, so that control does not send it again
            return max(last, state.through_rev), page.end is not None, 0
        new_events = [event for event in page.events if event.rev > state.through_rev]
        gap = bool(new_events) and new_events[0].rev != state.through_rev + 1
        if state.ended_at is not None or gap:
            return state.through_rev, state.ended_at is not None, 0
        unsettled = parse_state(state.unsettled)
        unsettled.home_dm = page.home_dm or unsettled.home_dm
        splitter = UnitSplitter(page.agent_id, unsettled)
        for event in new_events:
            splitter.take(event)
        if page.end is not None:
            splitter.finish()
        # all events are split, because the trust of a reply depends on what was read before it
        _apply_forgotten(splitter, page, await read_forgotten_periods(connection, page.agent_id))
        through_rev = max(last, state.through_rev)
        queued_count = await self._store_units(connection, page, splitter.units)
        # also at the end, when held facts are reviewed
        if page.end is not None or any(unit.kind == "turn" for unit in splitter.units):
            await enqueue_extraction(connection, page.agent_id)
        queued_count += await self._store_failures(connection, page, splitter.troubles.failures)
        store = SessionStore(connection, page.agent_id)
        await store.advance(page.session_id, through_rev, render_state(splitter.unsettled))
        summary, further = state.summary, state.further
        if splitter.ending is not None:
            summary, further = splitter.ending.summary, _further(splitter.ending)
            topics = _topics(splitter.ending)
            await store.store_summary(page.session_id, summary, topics, further)
        if page.end is not None:
            session = EndedSession(
                session_id=page.session_id,
                summary=summary,
                began_at=page.started_at,
                inherited=splitter.unsettled.inherited,
                lane_trust=splitter.unsettled.edge_trust,
                conversations=splitter.unsettled.conversations_of(EDGE_LANE),
                further=further,
            )
            queued_count += await self._store_episode(connection, page, session)
            await store.mark_ended(page.session_id, page.end.at)
            if splitter.unsettled.next_index == 0 and not await self._has_units(connection, page):
                # an empty session must not displace one with content from mid-term memory
                await store.mark_promoted(page.session_id)
        return through_rev, page.end is not None, queued_count

    async def _store_units(
        self, connection: Connection, page: ArchivePage, units: Sequence[Unit]
    ) -> int:
        if not units:
            return 0
        prepared = await prepare_units([_row(page.session_id, unit) for unit in units])
        await take_agent_role(connection, page.agent_id)
        document_ids = await DocumentStore(connection, page.agent_id).upsert(prepared)
        await resume_service_role(connection)
        await enqueue_all(connection, page.agent_id, "session", document_ids)
        return len(document_ids)

    async def _has_units(self, connection: Connection, page: ArchivePage) -> bool:
        """Return whether units of the session were recorded directly, without a log."""
        await take_agent_role(connection, page.agent_id)
        units = await DocumentStore(connection, page.agent_id).list_session_ids(page.session_id)
        await resume_service_role(connection)
        return bool(units)

    async def _store_failures(
        self, connection: Connection, page: ArchivePage, failures: Sequence[EndedFailure]
    ) -> int:
        if not failures:
            return 0
        await take_agent_role(connection, page.agent_id)
        document_ids = await self.failures.store_failures(
            connection, page.agent_id, page.session_id, failures
        )
        await resume_service_role(connection)
        await enqueue_all(connection, page.agent_id, "knowledge", document_ids)
        return len(document_ids)

    async def _store_episode(
        self, connection: Connection, page: ArchivePage, session: EndedSession
    ) -> int:
        if not (session.summary.strip() or session.further):
            return 0
        await take_agent_role(connection, page.agent_id)
        document_ids = await self.episodes.store_episode(connection, page.agent_id, session)
        await resume_service_role(connection)
        await enqueue_all(connection, page.agent_id, "knowledge", document_ids)
        return len(document_ids)


def _apply_forgotten(
    splitter: UnitSplitter, page: ArchivePage, periods: Sequence[ForgottenPeriod]
) -> None:
    """Remove or mark what was erased or undone before this page arrived, and drop a summary of it."""
    for period in periods:
        splitter.units = [
            result for unit in splitter.units if (result := _apply_period(unit, page, period))
        ]
        splitter.troubles.failures = [
            failure
            for failure in splitter.troubles.failures
            if period.effect == "no_summary"
            or not period.covers(page.session_id, _parse(failure.at), _parse(failure.at))
        ]
        # the agent writes its summary at the session's end, from all of it
        if page.events and period.covers(
            page.session_id, page.started_at, _parse(page.events[-1].at)
        ):
            splitter.ending = None


def _apply_period(unit: Unit, page: ArchivePage, period: ForgottenPeriod) -> Unit | None:
    if not period.covers(page.session_id, _parse(unit.at), _parse(unit.ended_at)):
        return unit
    match period.effect:
        case "erased":
            return None
        case "unlearned":
            return replace(unit, metadata={**unit.metadata, "unlearned": True})
        case "no_summary":
            return unit
        case _:
            assert_never(period.effect)


def _topics(summary: AgentSummary) -> tuple[StoredTopic, ...]:
    return tuple(StoredTopic(title, text) for title, text in summary.topics)


def _further(ending: AgentSummary) -> tuple[StoredConversation, ...]:
    return tuple(
        StoredConversation(dm, it.summary, _topics(it)) for dm, it in ending.further.items()
    )


def _parse(at: str) -> datetime:
    return datetime.fromisoformat(at)


def check_consecutive(events: Sequence[Event]) -> None:
    """Raise InvalidRequest unless the events' revisions are consecutive."""
    for before, after in itertools.pairwise(events):
        if after.rev != before.rev + 1:
            raise InvalidRequest(f"Event {after.rev} does not follow event {before.rev}.")


def _row(session_id: str, unit: Unit) -> UnitRow:
    return UnitRow(
        document_id=document_id(session_id, "rev", str(unit.first_rev), str(unit.part)),
        session_id=session_id,
        tier="mid_term",
        chunk_index=unit.index,
        kind=unit.kind,
        text=unit.text,
        happened_at=datetime.fromisoformat(unit.at),
        ended_at=datetime.fromisoformat(unit.ended_at),
        speaker=unit.speaker,
        first_rev=unit.first_rev,
        last_rev=unit.last_rev,
        origin=unit.origin,
        trust=unit.trust,
        metadata=unit.metadata,
        conversations=unit.conversations,
    )

"""Promote sessions from mid-term to long-term memory: the oldest beyond the newest N.

The units keep their text and vectors, so that search covers the whole history; the summary becomes separate
documents. The summary is written first, then the units are moved in batches: an interrupted promotion
resumes with the same session, which is marked as promoted last.
"""

from dataclasses import dataclass

from choir_common.lanes import EDGE_LANE
from choir_common.postgres.pool import Connection, Database
from choir_memory.documents.store import DocumentStore, prepare_units
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.schema.store import resume_service_role, take_agent_role
from choir_memory.sessions.detail_store import SessionDetailStore
from choir_memory.sessions.lane_trust import FULL_TRUST
from choir_memory.sessions.splitter_state import parse_state
from choir_memory.sessions.store import SessionStore
from choir_memory.sessions.summary import build_summary, build_summary_rows

BATCH_SIZE = 400
"""Rows moved per transaction; each is reindexed, which takes a millisecond or two."""


@dataclass(frozen=True, slots=True)
class SessionPromoter:
    """Promotion of sessions; `queue` is told how many documents were queued."""

    database: Database
    queue: EmbeddingQueue

    async def promote(self, agent_id: str, keep: int) -> tuple[str, ...]:
        """Promote the oldest sessions until `keep` ended ones are left in mid-term memory; return their
        ids."""
        done: list[str] = []
        while True:
            async with self.database.transaction() as connection:
                session_id = await SessionStore(connection, agent_id).find_oldest_beyond(keep)
                if session_id is None:
                    return tuple(done)
                queued = await self._sum_up(connection, agent_id, session_id)
            # another replica was faster: continue with the next session
            if queued is None:
                continue
            self.queue.notify(queued)
            while await self._move_some(agent_id, session_id):
                pass
            done.append(session_id)

    async def _sum_up(self, connection: Connection, agent_id: str, session_id: str) -> int | None:
        """Write the summary; return how many documents were queued, or None if another process was
        faster."""
        state = await SessionStore(connection, agent_id).get(session_id)
        if state is None or state.promoted or state.erased:
            return None
        await take_agent_role(connection, agent_id)
        details = SessionDetailStore(connection, agent_id)
        overview = await details.read_overview(session_id)
        unsettled = parse_state(state.unsettled)
        summary = build_summary(state, overview, unsettled.conversations_of(EDGE_LANE))
        # what was selected without a model quotes this session alone
        grounds = await details.grounds(
            session_id,
            overview,
            summary.texts,
            unsettled.inherited if summary.by_agent else None,
            lane_trust=unsettled.edge_trust if summary.by_agent else FULL_TRUST,
        )
        units = await prepare_units(
            build_summary_rows(session_id, state, overview, summary, grounds)
        )
        document_ids = await DocumentStore(connection, agent_id).upsert(units)
        await resume_service_role(connection)
        await enqueue_all(connection, agent_id, "session", document_ids)
        return len(document_ids)

    async def _move_some(self, agent_id: str, session_id: str) -> bool:
        """Move a batch of units to the new tier; return whether there are more."""
        async with self.database.transaction() as connection:
            sessions = SessionStore(connection, agent_id)
            state = await sessions.get(session_id)
            if state is None or state.promoted or state.erased:
                return False
            await take_agent_role(connection, agent_id)
            moved = await DocumentStore(connection, agent_id).change_tier(
                session_id, "mid_term", "long_term_detail", BATCH_SIZE
            )
            await resume_service_role(connection)
            if len(moved) < BATCH_SIZE:
                await sessions.mark_promoted(session_id)
                return False
        return True

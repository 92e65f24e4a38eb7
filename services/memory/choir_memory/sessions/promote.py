"""Move sessions from mid-term to long-term memory: the oldest beyond the newest N (spec 11.5).

Called by `archive` whenever a session has ended. Details keep their text and lose their vectors; the
summary becomes documents of its own. One session is one transaction.
"""

from collections.abc import Callable
from dataclasses import dataclass

from choir_common.postgres.pool import Connection, Database
from choir_memory.documents.store import DocumentStore, prepare
from choir_memory.embedding.queue_store import enqueue_all, withdraw
from choir_memory.schema.store import resume_service_role, take_agent_role
from choir_memory.sessions.detail_store import DetailStore
from choir_memory.sessions.store import SessionStore
from choir_memory.sessions.summary import summary_rows


@dataclass(frozen=True, slots=True)
class Promotion:
    """Promotes sessions; `announce` tells the embedding queue how many documents wait."""

    database: Database
    announce: Callable[[int], None]

    async def promote(self, agent_id: str, keep: int) -> tuple[str, ...]:
        """Promote, oldest first, until `keep` ended sessions are in mid-term memory; return which."""
        done: list[str] = []
        while True:
            async with self.database.transaction() as held:
                session_id = await SessionStore(held, agent_id).oldest_beyond(keep)
                if session_id is None:
                    return tuple(done)
                queued = await self._promote(held, agent_id, session_id)
            if queued is not None:
                self.announce(queued)
                done.append(session_id)

    async def _promote(self, held: Connection, agent_id: str, session_id: str) -> int | None:
        """Return how many vectors are wanted; none if somebody else was faster."""
        sessions = SessionStore(held, agent_id)
        state = await sessions.held(session_id)
        if state is None or state.promoted or state.erased:
            return None
        await take_agent_role(held, agent_id)
        documents = DocumentStore(held, agent_id)
        details = await documents.move(session_id, "mid_term", "long_term_detail")
        await documents.drop_vectors(details)
        said = await DetailStore(held, agent_id).told(session_id)
        prepared = await prepare(summary_rows(session_id, state, said))
        written = await documents.put(prepared)
        await resume_service_role(held)
        await withdraw(held, agent_id, details)
        await enqueue_all(held, agent_id, "session", written)
        await sessions.promoted(session_id)
        return len(written)

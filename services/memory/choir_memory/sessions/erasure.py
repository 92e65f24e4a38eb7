"""Erase a session from memory, for an operator.

Deletes its documents with their vectors, links and embedding jobs, and everything derived from them
alone. The session's row remains and is marked as erased, so that nothing of it is stored again. The log
belongs to control.
"""

from dataclasses import dataclass

from choir_common.errors import NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.memory_sessions import EraseSession, SessionErased
from choir_memory.audit.store import OPERATOR, AuditRecord, write_record
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.documents.store import DocumentStore
from choir_memory.schema.store import SpaceRegistry, resume_service_role, take_agent_role
from choir_memory.sessions.store import SessionStore


@dataclass(frozen=True, slots=True)
class SessionEraser:
    """Erasure of sessions."""

    database: Database
    spaces: SpaceRegistry

    async def erase(self, asked: EraseSession) -> SessionErased:
        """Erase a session; raises NotFound for an unknown session."""
        await self.spaces.require(asked.agent_id)
        async with self.database.transaction() as held:
            sessions = SessionStore(held, asked.agent_id)
            state = await sessions.get(asked.session_id)
            if state is None:
                raise NotFound(f"Memory holds no session {asked.session_id} of {asked.agent_id}.")
            await take_agent_role(held, asked.agent_id)
            own = await DocumentStore(held, asked.agent_id).list_session_ids(asked.session_id)
            gone = await erase_documents(held, asked.agent_id, own)
            await resume_service_role(held)
            await erase_references(held, asked.agent_id, gone.ids)
            await write_record(
                held, AuditRecord(asked.agent_id, OPERATOR, "erase session", gone.ids)
            )
            await sessions.mark_erased(asked.session_id)
        return SessionErased(documents=len(gone.ids))

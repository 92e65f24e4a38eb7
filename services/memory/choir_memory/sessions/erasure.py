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

    async def erase(self, request: EraseSession) -> SessionErased:
        """Erase a session; raises NotFound for an unknown session."""
        await self.spaces.require(request.agent_id)
        async with self.database.transaction() as connection:
            sessions = SessionStore(connection, request.agent_id)
            state = await sessions.get(request.session_id)
            if state is None:
                raise NotFound(
                    f"Memory holds no session {request.session_id} of {request.agent_id}."
                )
            await take_agent_role(connection, request.agent_id)
            own = await DocumentStore(connection, request.agent_id).list_session_ids(
                request.session_id
            )
            erased = await erase_documents(connection, request.agent_id, own)
            await resume_service_role(connection)
            await erase_references(connection, request.agent_id, erased.ids)
            await write_record(
                connection, AuditRecord(request.agent_id, OPERATOR, "erase session", erased.ids)
            )
            await sessions.mark_erased(request.session_id)
        return SessionErased(documents=len(erased.ids))

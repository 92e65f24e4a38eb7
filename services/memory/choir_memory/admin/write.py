"""Write and erase memory for an operator."""

from dataclasses import dataclass
from uuid import UUID

from choir_common.errors import Conflict, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_forget import ForgetSelection
from choir_common.wire.memory_operator import DeleteDocument, MemoryErased
from choir_common.wire.memory_search import MemoryUpsert, MemoryWritten
from choir_common.wire.memory_sessions import EraseSession, SessionErased
from choir_memory.admin.forget_store import ForgetStore
from choir_memory.admin.read import parse_document_id
from choir_memory.admin.read_store import MemoryReadStore
from choir_memory.audit.store import OPERATOR, AuditRecord, write_record
from choir_memory.documents.erase_store import ErasedDocuments, erase_documents, erase_references
from choir_memory.documents.store import DocumentStore
from choir_memory.knowledge.upsert import KnowledgeService, Writer
from choir_memory.schema.store import SpaceRegistry, resume_service_role, take_agent_role
from choir_memory.sessions.store import SessionStore

OPERATOR_WRITER = Writer(OPERATOR, "operator")


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes and erasures by an operator."""

    database: Database
    spaces: SpaceRegistry
    knowledge: KnowledgeService

    async def put(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; raises the same errors as an agent's own write."""
        return await self.knowledge.upsert(write, OPERATOR_WRITER)

    async def delete(self, request: DeleteDocument) -> MemoryErased:
        """Erase a document of either store; raises NotFound, or Conflict if the version differs."""
        await self.spaces.require(request.agent_id)
        async with self.database.transaction() as connection:
            await take_agent_role(connection, request.agent_id)
            document_id = await self._lock_document(
                MemoryReadStore(connection, request.agent_id), request
            )
            erasure = await erase_documents(connection, request.agent_id, (document_id,))
            await self._follow_up(connection, request.agent_id, "deleted", erasure)
        return MemoryErased(documents=1, derived=len(erasure.ids) - 1)

    async def _lock_document(self, store: MemoryReadStore, request: DeleteDocument) -> UUID:
        which = await store.find(parse_document_id(request.name), request.name)
        version = await store.lock(*which) if which else None
        if which is None or version is None:
            raise NotFound(
                _("There is no document {name!r} in the memory of {agent_id}.").format(
                    name=request.name, agent_id=request.agent_id
                )
            )
        if request.expected_version not in (None, version):
            raise Conflict(
                _(
                    "{request} is at version {version}, not at the expected version {expected_version}. "
                    "Nothing was deleted."
                ).format(
                    request=request.name, version=version, expected_version=request.expected_version
                )
            )
        return which[1]

    async def _follow_up(
        self, connection: Connection, agent_id: str, operation: str, erasure: ErasedDocuments
    ) -> None:
        await resume_service_role(connection)
        await erase_references(connection, agent_id, erasure.ids)
        await write_record(connection, AuditRecord(agent_id, OPERATOR, operation, erasure.ids))


@dataclass(frozen=True, slots=True)
class SessionEraser:
    """Erasure of sessions.

    Deletes a session's documents with their vectors, links and embedding jobs, and everything derived from
    them alone. The session's row remains and is marked as erased, so that nothing of it is stored again. The
    log belongs to control.
    """

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
                    _("There is no session {session_id} in the memory of {agent_id}.").format(
                        session_id=request.session_id, agent_id=request.agent_id
                    )
                )
            await take_agent_role(connection, request.agent_id)
            documents = DocumentStore(connection, request.agent_id)
            units = await documents.list_session_ids(request.session_id)
            # derived from messages that a reset or retention has erased
            orphans = await ForgetStore(connection, request.agent_id).list_learned_without_source(
                ForgetSelection(session_id=request.session_id)
            )
            erasure = await erase_documents(connection, request.agent_id, {*units, *orphans})
            await resume_service_role(connection)
            await erase_references(connection, request.agent_id, erasure.ids)
            await write_record(
                connection, AuditRecord(request.agent_id, OPERATOR, "erase session", erasure.ids)
            )
            await sessions.mark_erased(request.session_id)
        return SessionErased(documents=len(erasure.ids))

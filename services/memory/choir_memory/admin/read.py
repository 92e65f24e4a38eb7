"""Read an agent's memory for an operator: lists, documents, searches, the audit log, the state.

Each read of documents is audited before the answer is sent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic import TypeAdapter

from choir_common.clock import Clock
from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    AuditEntry,
    AuditQuery,
    DocumentDetail,
    DocumentPage,
    DocumentView,
    FeedbackPage,
    FeedbackView,
    LinkView,
    ListFeedback,
    ListMemory,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_records import Record
from choir_common.wire.memory_search import MemoryHits, MemoryQuery
from choir_common.wire.model import DEFERRED
from choir_memory.admin.list_scope import list_scope, validate_list
from choir_memory.admin.read_store import ListPosition, MemoryReadStore
from choir_memory.audit.store import OPERATOR, AuditRecord, AuditStore
from choir_memory.facts.feedback_store import list_feedback
from choir_memory.schema.store import SpaceRegistry, admin_read_transaction
from choir_memory.search.service import SearchService

RECORD_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record, config=DEFERRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReader:
    """Reads by an operator."""

    database: Database
    spaces: SpaceRegistry
    search_service: SearchService
    audit_log: AuditStore
    clock: Clock

    async def list(self, request: ListMemory) -> DocumentPage:
        """Return a page of documents; raises NotFound without a memory, InvalidRequest for an invalid
        filter or cursor."""
        validate_list(request)
        after = _parse_cursor(request.cursor)
        await self.spaces.require(request.agent_id)
        scope = list_scope(request, self.clock.now())
        async with admin_read_transaction(self.database) as connection:
            documents = await MemoryReadStore(connection, request.agent_id).page(
                scope, key_prefix=request.key_prefix, after=after, limit=request.limit
            )
        await self._audit_read(
            request.agent_id, "list", (UUID(document.document_id) for document in documents)
        )
        full = len(documents) == request.limit
        return DocumentPage(items=tuple(documents), next=_cursor(documents[-1]) if full else None)

    async def show(self, request: ShowDocument) -> DocumentDetail:
        """Return one document completely; raises NotFound."""
        await self.spaces.require(request.agent_id)
        async with admin_read_transaction(self.database) as connection:
            store = MemoryReadStore(connection, request.agent_id)
            which = await store.find(parse_document_id(request.name), request.name)
            record = await store.record(*which) if which else None
            if which is None or record is None:
                raise NotFound(
                    _("There is no document {name!r} in the memory of {agent_id}.").format(
                        name=request.name, agent_id=request.agent_id
                    )
                )
            vectors = await store.vectors(*which)
            links = await store.links(which[1])
        await self._audit_read(request.agent_id, "show", (which[1],))
        return DocumentDetail(
            record=RECORD_ADAPTER.validate_json(record),
            vectors=vectors,
            links=tuple(
                LinkView.model_validate(
                    {
                        "kind": link.kind,
                        "direction": link.direction,
                        "document_id": str(link.other),
                        "text": link.text,
                    }
                )
                for link in links
            ),
        )

    async def search(self, query: MemoryQuery) -> MemoryHits:
        """Return the results of a search; raises the errors of `SearchService.query`."""
        await self.spaces.require(query.target_agent or query.agent_id)
        hits = await self.search_service.query(query)
        read = (UUID(hit.document_id) for hit in hits.hits)
        await self._audit_read(query.target_agent or query.agent_id, "search", read)
        return hits

    async def audit(self, request: AuditQuery) -> AuditEntries:
        """Return the audit entries on an agent's memory, newest first; works for an agent that no
        longer exists, too."""
        records = await self.audit_log.read_page(request.agent_id, request.before, request.limit)
        return AuditEntries(
            items=tuple(
                AuditEntry(
                    number=record.number,
                    at=record.at,
                    agent_id=record.entry.agent_id,
                    actor=record.entry.actor,
                    operation=record.entry.operation,
                    document_ids=tuple(map(str, record.entry.document_ids)),
                    detail=record.entry.detail,
                )
                for record in records
            )
        )

    async def feedback(self, request: ListFeedback) -> FeedbackPage:
        """Return users' feedback on the conduct of sessions; raises NotFound without a memory."""
        await self.spaces.require(request.agent_id)
        feedback = await list_feedback(
            self.database, request.agent_id, request.session_id, request.limit
        )
        await self._audit_read(request.agent_id, "feedback", (item.turn_id for item in feedback))
        return FeedbackPage(
            items=tuple(
                FeedbackView(
                    session_id=item.session_id,
                    document_id=str(item.turn_id),
                    label=item.label,
                    at=item.happened_at,
                    text=item.text,
                )
                for item in feedback
            )
        )

    async def state(self, request: ReadMemoryState) -> AgentMemory:
        """Return counts, queue length, size and unfinished imports of an agent's memory; raises
        NotFound without one."""
        await self.spaces.require(request.agent_id)
        async with admin_read_transaction(self.database) as connection:
            store = MemoryReadStore(connection, request.agent_id)
            return AgentMemory(
                agent_id=request.agent_id,
                counts=tuple(await store.counts()),
                queued=await store.queued(),
                bytes=await store.bytes(),
                unfinished_imports=tuple(await store.unfinished_imports()),
            )

    async def _audit_read(self, agent_id: str, operation: str, ids: Iterable[UUID]) -> None:
        await self.audit_log.write_record(AuditRecord(agent_id, OPERATOR, operation, tuple(ids)))


def parse_document_id(name: str) -> UUID | None:
    """Return the name as an id, or None if it can only be a key."""
    try:
        return UUID(name)
    except ValueError:
        return None


def _cursor(last: DocumentView) -> str:
    return f"{last.at.isoformat()}|{last.document_id}"


def _parse_cursor(cursor: str | None) -> ListPosition | None:
    if cursor is None:
        return None
    at, _separator, document_id = cursor.partition("|")
    try:
        position = ListPosition(datetime.fromisoformat(at), UUID(document_id))
    except ValueError:
        position = None
    if position is None or position.at.tzinfo is None:
        raise InvalidRequest(_("Invalid list cursor; pass the previous page's `next`."))
    return position

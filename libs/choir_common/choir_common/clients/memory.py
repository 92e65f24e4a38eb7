"""Clients of the memory service over NATS: knowledge, collections, sessions, and operators' access."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import Conflict, DeadlineExceeded
from choir_common.wire.embeddings import EmbeddingResult, EmbedTexts
from choir_common.wire.memory_collections import (
    INTERRUPTED,
    AddDocument,
    CollectionDocuments,
    Collections,
    DocumentAdded,
    DocumentsRemoved,
    FilePart,
    FileText,
    FollowFolder,
    ListCollections,
    ListDocuments,
    RemoveDocuments,
)
from choir_common.wire.memory_forget import ForgetMemory, ForgetResult
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    AuditQuery,
    DeleteDocument,
    DocumentDetail,
    DocumentPage,
    ExportedPage,
    ExportMemory,
    FeedbackPage,
    ImportPart,
    ListFeedback,
    ListMemory,
    MemoryErased,
    MemoryImported,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_recall import ReadHints, ReadReminders, Reminders, ToolHints
from choir_common.wire.memory_search import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_common.wire.memory_sessions import (
    ArchivePage,
    ArchiveProgress,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)
from choir_common.wire.messages import Empty

QUERY_TIMEOUT_S = 10.0
HINTS_TIMEOUT_S = 2.0
"""Short, because a failed call waits for the hints and can do without them."""
REMINDERS_TIMEOUT_S = 1.5
"""Short, because a user's message waits for the reminders."""
EMBEDDING_TIMEOUT_S = 60.0
"""The offline model takes seconds for a batch of long texts on a busy machine, and a provider may, too."""
COLLECTION_TIMEOUT_S = 30.0
"""Tokenizing 1,000,000 characters takes some seconds on a busy machine."""
FILE_TIMEOUT_S = 300.0
"""Longer than a file may be read with the default limits: 30 s of CPU time, eight times that by the clock."""
PART_TIMEOUT_S = 30.0
"""A part that is not the last one is only stored."""
OPERATOR_TIMEOUT_S = 15.0
BULK_TIMEOUT_S = 60.0
"""Many documents may depend on an erased one; the records of an import are tokenized."""
SESSION_TIMEOUT_S = 30.0
"""Tokenizing a page of long texts takes a second or two on a busy machine."""


class MemoryClient(Protocol):
    """An agent's long-term memory."""

    async def ensure(self, space: EnsureSpace) -> None: ...

    async def query(self, query: MemoryQuery) -> MemoryHits: ...

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def receipt(self, request: ReadSearchReceipt) -> SearchReceipt: ...

    async def status(self) -> MemoryStatus: ...

    async def hints(self, request: ReadHints) -> ToolHints: ...

    async def remind(self, request: ReadReminders) -> Reminders: ...

    async def collections(self, request: ListCollections) -> Collections: ...


class NatsMemoryClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ensure(self, space: EnsureSpace) -> None:
        """Create the agent's schema and role if missing."""
        await self._bus.request(subjects.ensure_memory(), space, Empty, QUERY_TIMEOUT_S)

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Search; raises NotFound if the target agent has no memory, InvalidRequest for an invalid query."""
        return await self._bus.request(subjects.query_memory(), query, MemoryHits, QUERY_TIMEOUT_S)

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; repeating a call_id changes nothing and returns the same response."""
        return await self._bus.request(
            subjects.upsert_memory(), write, MemoryWritten, QUERY_TIMEOUT_S
        )

    async def receipt(self, request: ReadSearchReceipt) -> SearchReceipt:
        """Return the record of a search; raises NotFound if it is unknown or expired."""
        return await self._bus.request(
            subjects.memory_receipt(), request, SearchReceipt, QUERY_TIMEOUT_S
        )

    async def status(self) -> MemoryStatus:
        """Return the state of the embedding pipeline."""
        return await self._bus.request(
            subjects.memory_status(), Empty(), MemoryStatus, QUERY_TIMEOUT_S
        )

    async def hints(self, request: ReadHints) -> ToolHints:
        """Return similar past failures of the same tool, resolved ones first."""
        return await self._bus.request(subjects.memory_hints(), request, ToolHints, HINTS_TIMEOUT_S)

    async def remind(self, request: ReadReminders) -> Reminders:
        """Return the memories to show the model with a user's message."""
        subject = subjects.memory_reminders()
        return await self._bus.request(subject, request, Reminders, REMINDERS_TIMEOUT_S)

    async def collections(self, request: ListCollections) -> Collections:
        """Return the agent's collections; raises NotFound if the agent has no memory."""
        subject = subjects.list_collections()
        return await self._bus.request(subject, request, Collections, QUERY_TIMEOUT_S)


class EmbeddingClient(Protocol):
    """The embedding model of memory."""

    async def embed(self, request: EmbedTexts) -> EmbeddingResult: ...


class NatsEmbeddingClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def embed(self, request: EmbedTexts) -> EmbeddingResult:
        """Return the vectors of texts.

        Raises NotFound for another model, InvalidRequest for other dimensions or a text that the provider
        rejects, and Unavailable, RateLimited or DeadlineExceeded if a repetition may help.
        """
        subject = subjects.embed_texts()
        return await self._bus.request(subject, request, EmbeddingResult, EMBEDDING_TIMEOUT_S)


class CollectionsClient(Protocol):
    """Documents and folders that operators added to an agent's memory."""

    async def add(self, document: AddDocument) -> DocumentAdded: ...

    async def read_file(self, part: FilePart) -> FileText: ...

    async def follow(self, request: FollowFolder) -> Collections: ...

    async def documents(self, request: ListDocuments) -> CollectionDocuments: ...

    async def remove(self, request: RemoveDocuments) -> DocumentsRemoved: ...


class NatsCollectionsClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def add(self, document: AddDocument) -> DocumentAdded:
        """Add a document to a collection; repeating it changes nothing."""
        return await self._bus.request(
            subjects.add_to_collection(), document, DocumentAdded, COLLECTION_TIMEOUT_S
        )

    async def read_file(self, part: FilePart) -> FileText:
        """Send a part of a file; the last one returns the file's text.

        Raises InvalidRequest for a file that cannot be read, TooLarge, Conflict if the replica of memory that
        has the parts before is gone, and Unavailable if too many are read.
        """
        subject = (
            subjects.continue_document_file() if part.offset else subjects.read_document_file()
        )
        timeout_s = FILE_TIMEOUT_S if part.is_last else PART_TIMEOUT_S
        try:
            return await self._bus.request(subject, part, FileText, timeout_s)
        except DeadlineExceeded:
            if part.is_last:
                raise
            # only the replica with the parts before would have answered
            raise Conflict(INTERRUPTED.format(name=part.name)) from None

    async def follow(self, request: FollowFolder) -> Collections:
        """Follow a folder, or scan it now; return its collection."""
        return await self._bus.request(
            subjects.follow_folder(), request, Collections, COLLECTION_TIMEOUT_S
        )

    async def documents(self, request: ListDocuments) -> CollectionDocuments:
        """Return a page of a collection's documents; raises NotFound if the agent has no memory."""
        return await self._bus.request(
            subjects.list_documents(), request, CollectionDocuments, COLLECTION_TIMEOUT_S
        )

    async def remove(self, request: RemoveDocuments) -> DocumentsRemoved:
        """Erase a document or a collection; raises NotFound if there is none."""
        return await self._bus.request(
            subjects.remove_from_collection(), request, DocumentsRemoved, COLLECTION_TIMEOUT_S
        )


class MemoryAdminClient(Protocol):
    """An agent's memory for an operator; every call is audited under the operator's name."""

    async def list(self, request: ListMemory) -> DocumentPage: ...

    async def show(self, request: ShowDocument) -> DocumentDetail: ...

    async def search(self, query: MemoryQuery) -> MemoryHits: ...

    async def put(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def delete(self, request: DeleteDocument) -> MemoryErased: ...

    async def forget(self, request: ForgetMemory) -> ForgetResult: ...

    async def export(self, request: ExportMemory) -> ExportedPage: ...

    async def bring_in(self, request: ImportPart) -> MemoryImported: ...

    async def audit(self, request: AuditQuery) -> AuditEntries: ...

    async def feedback(self, request: ListFeedback) -> FeedbackPage: ...

    async def state(self, request: ReadMemoryState) -> AgentMemory: ...


class NatsMemoryAdminClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def list(self, request: ListMemory) -> DocumentPage:
        """List documents; raises NotFound when the agent has no memory, InvalidRequest for a bad cursor."""
        return await self._bus.request(
            subjects.list_memory(), request, DocumentPage, OPERATOR_TIMEOUT_S
        )

    async def show(self, request: ShowDocument) -> DocumentDetail:
        """Show one document; raises NotFound."""
        return await self._bus.request(
            subjects.show_memory(), request, DocumentDetail, OPERATOR_TIMEOUT_S
        )

    async def search(self, query: MemoryQuery) -> MemoryHits:
        """Search as the agent would."""
        return await self._bus.request(
            subjects.search_memory(), query, MemoryHits, OPERATOR_TIMEOUT_S
        )

    async def put(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; raises Conflict if its version is not the expected one."""
        return await self._bus.request(
            subjects.put_memory(), write, MemoryWritten, OPERATOR_TIMEOUT_S
        )

    async def delete(self, request: DeleteDocument) -> MemoryErased:
        """Erase a document and everything derived from it alone; raises NotFound, Conflict."""
        return await self._bus.request(
            subjects.delete_memory(), request, MemoryErased, BULK_TIMEOUT_S
        )

    async def forget(self, request: ForgetMemory) -> ForgetResult:
        """Preview or erase a selection; raises NotFound, Conflict when it changed since its preview."""
        return await self._bus.request(
            subjects.forget_memory(), request, ForgetResult, BULK_TIMEOUT_S
        )

    async def export(self, request: ExportMemory) -> ExportedPage:
        """Return one page of the full export."""
        return await self._bus.request(
            subjects.export_memory(), request, ExportedPage, OPERATOR_TIMEOUT_S
        )

    async def bring_in(self, request: ImportPart) -> MemoryImported:
        """Import a part of an export, all or nothing; repeating it changes nothing."""
        return await self._bus.request(
            subjects.import_memory(), request, MemoryImported, BULK_TIMEOUT_S
        )

    async def audit(self, request: AuditQuery) -> AuditEntries:
        """Return the audit log, newest first."""
        return await self._bus.request(
            subjects.audit_memory(), request, AuditEntries, OPERATOR_TIMEOUT_S
        )

    async def feedback(self, request: ListFeedback) -> FeedbackPage:
        """Return users' feedback on the conduct of sessions, newest first."""
        return await self._bus.request(
            subjects.memory_feedback(), request, FeedbackPage, OPERATOR_TIMEOUT_S
        )

    async def state(self, request: ReadMemoryState) -> AgentMemory:
        """Return counts and sizes of an agent's memory."""
        return await self._bus.request(
            subjects.memory_state(), request, AgentMemory, OPERATOR_TIMEOUT_S
        )


class SessionMemoryClient(Protocol):
    """The part of memory that stores sessions."""

    async def record(self, units: RecordUnits) -> UnitsRecorded: ...

    async def archive(self, page: ArchivePage) -> ArchiveProgress: ...

    async def erase(self, session: EraseSession) -> SessionErased: ...


class NatsSessionMemoryClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def record(self, units: RecordUnits) -> UnitsRecorded:
        """Write units of a session; repeating it changes nothing."""
        return await self._bus.request(
            subjects.record_units(), units, UnitsRecorded, SESSION_TIMEOUT_S
        )

    async def archive(self, page: ArchivePage) -> ArchiveProgress:
        """Send the next events; known ones are skipped, and a gap returns the stored position."""
        return await self._bus.request(
            subjects.archive_session(), page, ArchiveProgress, SESSION_TIMEOUT_S
        )

    async def erase(self, session: EraseSession) -> SessionErased:
        """Erase a session permanently; repeating it changes nothing."""
        return await self._bus.request(
            subjects.erase_session(), session, SessionErased, SESSION_TIMEOUT_S
        )

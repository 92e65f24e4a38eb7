"""NATS endpoints of the service: the subjects that `choir_common.clients` calls.

The endpoints contain no parsing and no decisions: the bus passes checked models in, and the feature
packages answer. Only control calls them: for agents, and for operators after it has authenticated them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import stamina

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.embeddings import EmbeddingResult, EmbedTexts
from choir_common.wire.memory_collections import (
    AddDocument,
    FilePart,
    FollowFolder,
    ListCollections,
    ListDocuments,
    RemoveDocuments,
)
from choir_common.wire.memory_forget import ForgetMemory
from choir_common.wire.memory_operator import (
    AuditQuery,
    DeleteDocument,
    ExportMemory,
    ImportPart,
    ListFeedback,
    ListMemory,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_recall import ReadHints, ReadReminders
from choir_common.wire.memory_search import (
    EmbeddingRebuild,
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    ReadSearchReceipt,
)
from choir_common.wire.memory_sessions import ArchivePage, EraseSession, RecordUnits
from choir_common.wire.messages import Empty
from choir_memory.admin.export_import import MemoryTransfer
from choir_memory.admin.forget import MemoryForgetter
from choir_memory.admin.read import MemoryReader
from choir_memory.admin.write import MemoryWriter, SessionEraser
from choir_memory.audit.store import AuditRecord, AuditStore, actor_name
from choir_memory.collections.file_uploads import DocumentFileReader
from choir_memory.collections.folders import FolderService
from choir_memory.collections.service import CollectionService
from choir_memory.embedding.embedder import language_limitation, to_base64
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.knowledge.upsert import KnowledgeService
from choir_memory.reminders.service import ReminderService
from choir_memory.schema.store import SpaceRegistry
from choir_memory.search.service import SearchService
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.recorder import UnitRecorder
from choir_memory.tool_errors.service import ToolErrorService
from choir_memory.usage.token_count import count_tokens

RETRY_TIMEOUT_S = 6.0
"""Seconds a request is retried while the database is unavailable; callers wait ten."""
FIRST_RETRY_S = 0.05
"""Seconds before the second attempt."""

Request = TypeVar("Request")
Response = TypeVar("Response")


def with_retry(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that retries on Unavailable for up to `RETRY_TIMEOUT_S`.

    For requests that may be repeated: writes carry a call_id or are idempotent, reads change nothing.
    """

    async def handle(request: Request) -> Response:
        start = time.monotonic()
        # without stamina: most requests succeed at once, and its preparations are a cost for each of them
        try:
            return await handler(request)
        except Unavailable:
            remaining = RETRY_TIMEOUT_S - FIRST_RETRY_S - (time.monotonic() - start)
            if remaining <= 0:
                raise
        await asyncio.sleep(FIRST_RETRY_S)
        async for attempt in stamina.retry_context(
            on=Unavailable, attempts=None, timeout=remaining, wait_initial=0.1, wait_max=0.5
        ):
            with attempt:
                return await handler(request)
        raise ChoirError  # the loop above returns or raises

    return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoints:
    """Endpoints for the requests that control sends on behalf of agents."""

    spaces: SpaceRegistry
    knowledge: KnowledgeService
    search: SearchService
    reminders: ReminderService
    tool_errors: ToolErrorService
    queue: EmbeddingQueue
    embedders: EmbedderRegistry
    audit: AuditStore
    folders: FolderService

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.ensure_memory(), EnsureSpace, with_retry(self._ensure)),
            Endpoint(subjects.query_memory(), MemoryQuery, self._query),
            Endpoint(subjects.upsert_memory(), MemoryUpsert, with_retry(self.knowledge.upsert)),
            Endpoint(subjects.memory_receipt(), ReadSearchReceipt, with_retry(self.search.receipt)),
            Endpoint(subjects.memory_status(), Empty, self._status),
            Endpoint(
                subjects.list_collections(),
                ListCollections,
                with_retry(self.folders.list_collections),
            ),
            # not retried: each attempt may cost money
            Endpoint(subjects.embed_texts(), EmbedTexts, self._embed),
            # not retried: a user's message or a failed call waits for the answer
            Endpoint(subjects.memory_reminders(), ReadReminders, self.reminders.remind),
            Endpoint(subjects.memory_hints(), ReadHints, self.tool_errors.hints),
        )

    async def _ensure(self, space: EnsureSpace) -> Empty:
        await self.spaces.ensure(space.agent_id)
        return Empty()

    async def _embed(self, request: EmbedTexts) -> EmbeddingResult:
        with count_tokens() as count:
            vectors = await self.embedders.embed_texts(
                request.texts, model=request.model, dimensions=request.dimensions
            )
        return EmbeddingResult(vectors=tuple(map(to_base64, vectors)), tokens=count.tokens)

    async def _query(self, query: MemoryQuery) -> MemoryHits:
        hits = await with_retry(self.search.query)(query)
        target = query.target_agent or query.agent_id
        if target != query.agent_id:
            # audited before the answer is sent: no read of another agent's memory goes unrecorded
            context_ids = [
                neighbour.document_id
                for hit in hits.hits
                for neighbour in (*hit.before, *hit.after)
            ]
            read_ids = {
                UUID(id_text) for id_text in (*(hit.document_id for hit in hits.hits), *context_ids)
            }
            record = AuditRecord(
                target, actor_name(query.agent_id), "read", read_ids, {"mode": query.mode}
            )
            await with_retry(self.audit.write_record)(record)
        return hits

    async def _status(self, _: Empty) -> MemoryStatus:
        queued, failed = await self.queue.count_jobs()
        return MemoryStatus(
            embedder=self.embedders.name,
            dimensions=self.embedders.dimensions,
            queued=queued,
            failed=failed,
            degraded=self.embedders.trouble,
            limitation=language_limitation(self.embedders.name),
            building=await self._reembedding(),
        )

    async def _reembedding(self) -> EmbeddingRebuild | None:
        progress = await self.embedders.progress()
        if progress is None:
            return None
        return EmbeddingRebuild(
            embedder=progress.name,
            dimensions=progress.dimensions,
            done=progress.done,
            documents=progress.documents,
        )


@dataclass(frozen=True, slots=True)
class SessionEndpoints:
    """Endpoints that record, archive and erase sessions, for control and for tools that import."""

    recorder: UnitRecorder
    archive: SessionArchive
    eraser: SessionEraser

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.record_units(), RecordUnits, with_retry(self.recorder.record)),
            Endpoint(subjects.archive_session(), ArchivePage, with_retry(self.archive.take)),
            Endpoint(subjects.erase_session(), EraseSession, with_retry(self.eraser.erase)),
        )


def upload_endpoints(uploads: DocumentFileReader) -> tuple[Endpoint, ...]:
    """Return the endpoints for the files that operators add to collections."""
    first, later = subjects.read_document_file(), subjects.continue_document_file()
    return (
        Endpoint(first, FilePart, uploads.add_part),
        Endpoint(later, FilePart, uploads.add_part, owns=uploads.has),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminEndpoints:
    """Endpoints for the requests that control sends on behalf of operators."""

    reader: MemoryReader
    writer: MemoryWriter
    forgetter: MemoryForgetter
    transfer: MemoryTransfer
    collections: CollectionService
    uploads: DocumentFileReader
    folders: FolderService

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        collections = self.collections
        return (
            Endpoint(subjects.list_memory(), ListMemory, with_retry(self.reader.list)),
            Endpoint(subjects.show_memory(), ShowDocument, with_retry(self.reader.show)),
            Endpoint(subjects.search_memory(), MemoryQuery, with_retry(self.reader.search)),
            Endpoint(subjects.audit_memory(), AuditQuery, with_retry(self.reader.audit)),
            Endpoint(subjects.memory_feedback(), ListFeedback, with_retry(self.reader.feedback)),
            Endpoint(subjects.memory_state(), ReadMemoryState, with_retry(self.reader.state)),
            Endpoint(subjects.put_memory(), MemoryUpsert, with_retry(self.writer.put)),
            Endpoint(subjects.export_memory(), ExportMemory, with_retry(self.transfer.export)),
            Endpoint(subjects.import_memory(), ImportPart, with_retry(self.transfer.import_part)),
            Endpoint(subjects.add_to_collection(), AddDocument, with_retry(collections.add)),
            Endpoint(subjects.follow_folder(), FollowFolder, with_retry(self.folders.follow)),
            Endpoint(
                subjects.list_documents(), ListDocuments, with_retry(self.folders.list_documents)
            ),
            # not retried: if the first attempt succeeded unnoticed, a second one would raise an error
            Endpoint(subjects.delete_memory(), DeleteDocument, self.writer.delete),
            Endpoint(subjects.forget_memory(), ForgetMemory, self.forgetter.forget),
            Endpoint(subjects.remove_from_collection(), RemoveDocuments, collections.remove),
            *upload_endpoints(self.uploads),
        )

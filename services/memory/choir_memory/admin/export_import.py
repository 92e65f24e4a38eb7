"""Export an agent's memory page by page, and import it piece by piece.

A piece is stored completely or not at all,
and storing it again changes nothing. The progress of an import is stored until its last piece
arrives, so that an interrupted import can be reported.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
from pydantic import TypeAdapter, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_operator import (
    ExportedPage,
    ExportMemory,
    ImportPart,
    MemoryImported,
    Store,
)
from choir_common.wire.memory_records import (
    ArchivedSessionRecord,
    ExtractionCursor,
    KnowledgeRecord,
    LinkRecord,
    Record,
    SessionRecord,
)
from choir_common.wire.model import JsonObject
from choir_memory.admin.export_import_store import PAGE_ROWS, ExportImportStore, ImportDocument
from choir_memory.admin.read import RECORD_ADAPTER
from choir_memory.audit.store import OPERATOR, AuditRecord, AuditStore, write_record
from choir_memory.documents.model import unit_tokens
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.schema.store import (
    SpaceRegistry,
    admin_read_transaction,
    resume_service_role,
    take_agent_role,
)
from choir_memory.text.questions import question_share
from choir_memory.text.tokens import document_tokens, tsvector

LINK_ADAPTER = TypeAdapter(LinkRecord)


@dataclass(frozen=True, slots=True)
class _GroupedRecords:
    """The records of a piece by type, with the search tokens of the documents."""

    session: list[ImportDocument]
    knowledge: list[ImportDocument]
    links: list[LinkRecord]
    archived_sessions: list[ArchivedSessionRecord]
    cursors: list[ExtractionCursor]
    embedded_ids: frozenset[UUID]
    """Session documents that are to get vectors."""


@dataclass(frozen=True, slots=True)
class _ImportCounts:
    inserted_count: int
    unchanged_count: int
    refused_ids: tuple[str, ...]
    new_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTransfer:
    """Export and import of memory; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    audit: AuditStore
    queue: EmbeddingQueue

    async def export(self, request: ExportMemory) -> ExportedPage:
        """Return the next page of an export; raises NotFound without a memory, InvalidRequest for an
        invalid cursor."""
        await self.spaces.require(request.agent_id)
        phase, _separator, after = (request.cursor or "extraction:").partition(":")
        try:
            async with admin_read_transaction(self.database) as connection:
                page = await _page(ExportImportStore(connection, request.agent_id), phase, after)
        except (ValueError, ValidationError):
            page = None
        if page is None:
            raise InvalidRequest(_("Invalid export cursor; pass the previous page's `next`."))
        # one audit entry per export, not one per page
        if request.cursor is None:
            await self.audit.write_record(AuditRecord(request.agent_id, OPERATOR, "export"))
        return page

    async def import_part(self, request: ImportPart) -> MemoryImported:
        """Store one piece of an import; raises InvalidRequest and stores nothing of it if a record is
        invalid.

        Records of sessions that were erased here are refused, and listed in `refused`.
        """
        agent_id, piece = request.agent_id, request.piece
        await self.spaces.ensure(agent_id)
        async with self.database.transaction() as connection:
            store = ExportImportStore(connection, agent_id)
            session_ids = {_session_of(record) for record in piece.records} - {None}
            erased_sessions = await store.list_erased_sessions(session_ids)
            accepted_records = [
                record for record in piece.records if _session_of(record) not in erased_sessions
            ]
            refused_names = [
                _name(record) for record in piece.records if _session_of(record) in erased_sessions
            ]
            counts = await _store(
                connection, store, agent_id, await asyncio.to_thread(_sort, accepted_records)
            )
            done = piece.first + len(piece.records)
            await store.progress(piece.import_id, done, piece.total)
            detail: JsonObject = {"import": piece.import_id, "done": done, "total": piece.total}
            await write_record(
                connection, AuditRecord(agent_id, OPERATOR, "import", counts.new_ids, detail)
            )
        self.queue.notify(len(counts.new_ids))
        return MemoryImported(
            written=counts.inserted_count,
            unchanged=counts.unchanged_count,
            refused=(*refused_names, *counts.refused_ids),
            finished=done >= piece.total,
        )


async def _page(store: ExportImportStore, phase: str, after: str) -> ExportedPage | None:
    match phase:
        # exported first: everything up to this position is then in the pages that follow
        case "extraction":
            return ExportedPage(records=tuple(await store.extraction_cursor()), next="session:")
        case "session":
            return await _documents(store, "session", after, "knowledge:")
        case "knowledge":
            return await _documents(store, "knowledge", after, "passed:")
        case "passed":
            lines = await store.export_sessions(after or None)
            records = tuple(RECORD_ADAPTER.validate_json(line) for line in lines)
            last = f"passed:{_session_of(records[-1])}" if records else "link:"
            return ExportedPage(records=records, next=last)
        case "link":
            links = await store.links(LINK_ADAPTER.validate_json(after) if after else None)
            more = f"link:{links[-1].model_dump_json()}" if len(links) == PAGE_ROWS else None
            return ExportedPage(records=tuple(links), next=more)
    return None


async def _documents(store: ExportImportStore, which: Store, after: str, then: str) -> ExportedPage:
    rows = await store.documents(which, UUID(after) if after else None)
    records = tuple(RECORD_ADAPTER.validate_json(line) for _, line in rows)
    return ExportedPage(records=records, next=f"{which}:{rows[-1][0]}" if rows else then)


async def _store(
    connection: Connection, store: ExportImportStore, agent_id: str, groups: _GroupedRecords
) -> _ImportCounts:
    await take_agent_role(connection, agent_id)
    units, same_units = await store.insert("session", groups.session)
    notes, same_notes = await store.insert("knowledge", groups.knowledge)
    link_count = await store.link(groups.links)
    await resume_service_role(connection)
    session_count = await store.import_sessions(groups.archived_sessions)
    cursor_count = await store.import_extraction_cursors(groups.cursors)
    await enqueue_all(
        connection, agent_id, "session", [unit for unit in units if unit in groups.embedded_ids]
    )
    await enqueue_all(connection, agent_id, "knowledge", list(notes))
    present_ids = units | same_units | notes | same_notes
    inserted_count = len(units) + len(notes) + link_count + session_count + cursor_count
    documents = [*groups.session, *groups.knowledge]
    refused_ids = tuple(
        str(document.document_id)
        for document in documents
        if document.document_id not in present_ids
    )
    total = len(documents) + len(groups.links) + len(groups.archived_sessions) + len(groups.cursors)
    return _ImportCounts(
        inserted_count, total - inserted_count - len(refused_ids), refused_ids, (*units, *notes)
    )


def _sort(records: Sequence[Record]) -> _GroupedRecords:
    """Group records by type and tokenize their texts; takes milliseconds, so it runs in a thread."""
    groups = _GroupedRecords([], [], [], [], [], _embedded(records))
    for record in records:
        match record:
            case SessionRecord():
                groups.session.append(_filed(record, unit_tokens(record.speaker, record.text)))
            case KnowledgeRecord():
                groups.knowledge.append(_filed(record, document_tokens(record.text)))
            case LinkRecord():
                groups.links.append(record)
            case ArchivedSessionRecord():
                groups.archived_sessions.append(record)
            case ExtractionCursor():
                groups.cursors.append(record)
    return groups


def _filed(record: SessionRecord | KnowledgeRecord, tokens: list[str]) -> ImportDocument:
    plain = record.model_dump_json()
    if b"\\u0000" in orjson.dumps(record.metadata):
        raise InvalidRequest(
            _("Record {record} contains a NUL character, which cannot be stored.").format(
                record=record.id
            )
        )
    asking = question_share(record.text)
    return ImportDocument(UUID(record.id), plain, tsvector(tokens), len(tokens), asking)


def _embedded(records: Sequence[Record]) -> frozenset[UUID]:
    return frozenset(
        UUID(record.id)
        for record in records
        if isinstance(record, SessionRecord) and record.keep_vectors
    )


def _session_of(record: Record) -> str | None:
    return record.session_id if isinstance(record, SessionRecord | ArchivedSessionRecord) else None


def _name(record: Record) -> str:
    return record.id if isinstance(record, SessionRecord) else f"session {_session_of(record)}"

"""Statements that export and import an agent's memory.

Documents and links are written under the agent's role. A row that conflicts with an existing one is
skipped and reported as refused.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, StatementError
from choir_common.wire.memory_operator import Store
from choir_common.wire.memory_records import (
    ArchivedSessionRecord,
    ExtractionCursor,
    KnowledgeRecord,
    LinkRecord,
    SessionRecord,
)
from choir_common.wire.model import WireModel
from choir_memory.facts.extraction import CURSOR_NAME, parse_position, render_position
from choir_memory.facts.store import TurnPosition
from choir_memory.schema.store import qualified

PAGE_ROWS = 200
PAGE_BYTES = 500_000
"""Limit for the texts and metadata of a page; as JSON they may be six times larger, and the bus
allows 8 MB."""


def _columns(shape: type[WireModel]) -> str:
    return ", ".join(name for name in shape.model_fields if name != "type")


def _json(shape: type[WireModel]) -> str:
    what = shape.model_fields["type"].default
    columns = _columns(shape)
    return f"(SELECT to_json(line) FROM (SELECT '{what}' AS type, {columns}) AS line)::text"  # noqa: S608


_JSON: Mapping[Store, str] = {
    "session": _json(SessionRecord),
    "knowledge": _json(KnowledgeRecord),
}
_TABLES: Mapping[Store, str] = {"session": "memory_documents", "knowledge": "knowledge_documents"}
_SHAPES: Mapping[Store, type[WireModel]] = {"session": SessionRecord, "knowledge": KnowledgeRecord}

DOCUMENT_AS_JSON: Mapping[Store, str] = {
    store: f"SELECT {_JSON[store]} FROM {{schema}}.{_TABLES[store]} WHERE id = $1"  # noqa: S608
    for store in _TABLES
}
"""Statements that return a document as the JSON of its record."""
# whole records up to the byte limit, at least one
_PAGE = """
SELECT id, record FROM (
    SELECT id, record, sum(octet_length(record)) OVER (ORDER BY id) - octet_length(record) AS before
    FROM (SELECT id, {record} AS record FROM {schema}.{table}
          WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2) AS next_rows) AS counted
WHERE before < $3 ORDER BY id
"""
_LINKS = """
SELECT from_id, kind, to_id FROM {schema}.links
WHERE $1::uuid IS NULL OR (from_id, kind, to_id) > ($1, $2, $3) ORDER BY 1, 2, 3 LIMIT $4
"""
_PASSED = f"""
SELECT {_json(ArchivedSessionRecord)} AS record FROM choir_memory.sessions
WHERE agent_id = $1 AND erased_at IS NULL AND ($2::text IS NULL OR session_id > $2)
ORDER BY session_id LIMIT $3
"""  # noqa: S608 our own columns
_INSERT = """
INSERT INTO {schema}.{table} ({columns}, tsv, tokens{asking})
SELECT {filled}, given.tsv::tsvector, given.tokens{given_asking}
FROM unnest($1::jsonb[], $2::text[], $3::int[], $4::real[]) AS given (record, tsv, tokens, asking),
    jsonb_populate_record(NULL::{schema}.{table}, given.record) AS filled
ON CONFLICT DO NOTHING RETURNING id
"""
_SAME = """
SELECT d.id FROM unnest($1::jsonb[]) AS given (record),
    jsonb_populate_record(NULL::{schema}.{table}, given.record) AS filled
JOIN {schema}.{table} d ON d.id = filled.id
WHERE to_jsonb(d) - '{tsv,tokens,asking}'::text[] = to_jsonb(filled) - '{tsv,tokens,asking}'::text[]
"""
_LINK = """
INSERT INTO {schema}.links (from_id, kind, to_id)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING RETURNING from_id
"""
_ERASED = """
SELECT session_id FROM choir_memory.sessions
WHERE agent_id = $1 AND session_id = ANY($2::text[]) AND erased_at IS NOT NULL
"""
# imported sessions are ended: no agent continues them
_NOTE_PASSED = """
INSERT INTO choir_memory.sessions
    (agent_id, session_id, started_at, ended_at, promoted_at, summary, topics)
SELECT $1, s.session_id, s.started_at, coalesce(s.ended_at, s.started_at), s.promoted_at, s.summary,
    s.topics
FROM unnest($2::jsonb[]) AS given (record),
    jsonb_populate_record(NULL::choir_memory.sessions, given.record) AS s
ON CONFLICT DO NOTHING RETURNING session_id
"""
_EXTRACTED = """
SELECT position::text FROM choir_memory.cursors WHERE agent_id = $1 AND name = $2 AND position <> '{}'
"""
# applies only while the position is empty: an agent that has extracted on its own keeps its
# position
_BEGIN_EXTRACTION = """
INSERT INTO choir_memory.cursors AS c (agent_id, name, position) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (agent_id, name) DO UPDATE SET position = EXCLUDED.position WHERE c.position = '{}'
RETURNING name
"""
_PROGRESS = """
INSERT INTO choir_memory.cursors AS c (agent_id, name, position)
VALUES ($1, 'import:' || $2, jsonb_build_object('done', $3::int, 'total', $4::int))
ON CONFLICT (agent_id, name) DO UPDATE SET position = jsonb_build_object(
    'done', greatest((c.position ->> 'done')::int, $3), 'total', $4::int)
"""
_FINISHED = "DELETE FROM choir_memory.cursors WHERE agent_id = $1 AND name = 'import:' || $2"


@dataclass(frozen=True, slots=True)
class ImportDocument:
    """A document to import as JSON, with its search tokens."""

    document_id: UUID
    record: str
    tsv: str
    tokens: int
    asking: float
    """Share of the text that consists of questions, from 0 to 1."""


class ExportImportStore:
    """One agent's memory on one connection, under the role that the caller has taken."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def documents(self, store: Store, after: UUID | None) -> list[tuple[UUID, str]]:
        """Return the next documents in the order of their ids, each as JSON."""
        sql = _PAGE.replace("{record}", _JSON[store]).replace("{table}", _TABLES[store])
        rows = await self._connection.fetch(self._sql(sql), after, PAGE_ROWS, PAGE_BYTES)
        return [(row["id"], row["record"]) for row in rows]

    async def links(self, after: LinkRecord | None) -> list[LinkRecord]:
        """Return the next links."""
        position = (UUID(after.from_id), after.kind, UUID(after.to_id)) if after else (None,) * 3
        rows = await self._connection.fetch(self._sql(_LINKS), *position, PAGE_ROWS)
        return [
            LinkRecord(from_id=str(row["from_id"]), kind=row["kind"], to_id=str(row["to_id"]))
            for row in rows
        ]

    async def export_sessions(self, after: str | None) -> list[str]:
        """Return the next sessions, each as JSON; runs under the service's role."""
        rows = await self._connection.fetch(_PASSED, self._agent_id, after, PAGE_ROWS)
        return [row["record"] for row in rows]

    async def extraction_cursor(self) -> list[ExtractionCursor]:
        """Return the position of fact extraction, empty if it has not started; runs under the
        service's role."""
        position_json = await self._connection.fetchval(_EXTRACTED, self._agent_id, CURSOR_NAME)
        if position_json is None:
            return []
        position = parse_position(dict(orjson.loads(position_json)))
        return [
            ExtractionCursor(
                created_at=position.created_at,
                session_id=position.session_id,
                chunk_index=position.chunk_index,
            )
        ]

    async def import_extraction_cursors(self, cursors: Sequence[ExtractionCursor]) -> int:
        """Start extraction after the given positions; return how many were set.

        No effect where extraction has already started: turns that were read are not read again.
        Runs under the service's role.
        """
        started_count = 0
        for cursor in cursors:
            position = render_position(
                TurnPosition(cursor.created_at, cursor.session_id, cursor.chunk_index)
            )
            text = orjson.dumps(position).decode()
            started_count += len(
                await self._connection.fetch(_BEGIN_EXTRACTION, self._agent_id, CURSOR_NAME, text)
            )
        return started_count

    async def insert(
        self, store: Store, documents: Sequence[ImportDocument]
    ) -> tuple[set[UUID], set[UUID]]:
        """Insert documents; return the ids that are new, and those already stored with the same content.

        Raises InvalidRequest when the database rejects a record.
        """
        if not documents:
            return set(), set()
        records = [document.record for document in documents]
        names = [name for name in _SHAPES[store].model_fields if name != "type"]
        sql = (
            _INSERT.replace("{table}", _TABLES[store])
            .replace("{columns}", ", ".join(names))
            .replace("{filled}", ", ".join(f"filled.{name}" for name in names))
            # only units of sessions have the column `asking`
            .replace("{asking}", ", asking" if store == "session" else "")
            .replace("{given_asking}", ", given.asking" if store == "session" else "")
        )
        tsvs = [document.tsv for document in documents]
        tokens = [document.tokens for document in documents]
        asking = [document.asking for document in documents]
        try:
            rows = await self._connection.fetch(self._sql(sql), records, tsvs, tokens, asking)
        except StatementError as error:
            raise InvalidRequest(
                _(
                    "The database rejected a record: {error}. Nothing of this piece was stored."
                ).format(error=error)
            ) from error
        new_ids = {row["id"] for row in rows}
        old_records = [
            document.record for document in documents if document.document_id not in new_ids
        ]
        sql = self._sql(_SAME.replace("{table}", _TABLES[store]))
        return new_ids, {
            row["id"] for row in await self._connection.fetch(sql, old_records)
        } if old_records else set()

    async def link(self, links: Sequence[LinkRecord]) -> int:
        """Insert links; return how many are new. Raises InvalidRequest when the database rejects one."""
        columns = [
            [UUID(link.from_id) for link in links],
            [link.kind for link in links],
            [UUID(link.to_id) for link in links],
        ]
        try:
            return len(await self._connection.fetch(self._sql(_LINK), *columns)) if links else 0
        except StatementError as error:
            raise InvalidRequest(
                _(
                    "The database rejected a link: {error}. Nothing of this piece was stored."
                ).format(error=error)
            ) from error

    async def list_erased_sessions(self, session_ids: Collection[str | None]) -> set[str | None]:
        """Return those of these sessions that were erased; runs under the service's role."""
        rows = await self._connection.fetch(_ERASED, self._agent_id, list(session_ids))
        return {row["session_id"] for row in rows}

    async def import_sessions(self, sessions: Sequence[ArchivedSessionRecord]) -> int:
        """Record imported sessions; return how many are new. Runs under the service's role."""
        records = [session.model_dump_json() for session in sessions]
        return (
            len(await self._connection.fetch(_NOTE_PASSED, self._agent_id, records))
            if records
            else 0
        )

    async def progress(self, import_id: str, done: int, total: int) -> None:
        """Store the progress of an import, or delete it when finished. Runs under the service's role."""
        if done >= total:
            await self._connection.execute(_FINISHED, self._agent_id, import_id)
        else:
            await self._connection.execute(_PROGRESS, self._agent_id, import_id, done, total)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)

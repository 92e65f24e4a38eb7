"""Statements that carry an agent's memory out and in, record by record. Called by `carry` and `look_store`.

What is written in, is written under the agent's role; a row whose place is taken is left out and told.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from choir_common.errors import BadInput
from choir_common.postgres.pool import Connection, Refused
from choir_common.wire.memory_operator import Store
from choir_common.wire.memory_records import (
    ExtractionCursor,
    KnowledgeRecord,
    LinkRecord,
    PassedSession,
    SessionRecord,
)
from choir_common.wire.model import Wire
from choir_memory.layers.extraction import CURSOR, read_position, write_position
from choir_memory.layers.facts_store import Position
from choir_memory.schema.naming import qualified

PAGE_ROWS = 200
PAGE_BYTES = 500_000
"""Of texts and metadata in a page; as JSON it may be six times that, and the bus takes 8 MB."""


def _columns(shape: type[Wire]) -> str:
    return ", ".join(name for name in shape.model_fields if name != "type")


def _json(shape: type[Wire]) -> str:
    what = shape.model_fields["type"].default
    columns = _columns(shape)
    return f"(SELECT to_json(line) FROM (SELECT '{what}' AS type, {columns}) AS line)::text"  # noqa: S608


_JSON: Mapping[Store, str] = {
    "session": _json(SessionRecord),
    "knowledge": _json(KnowledgeRecord),
}
_TABLES: Mapping[Store, str] = {"session": "memory_documents", "knowledge": "knowledge_documents"}
_SHAPES: Mapping[Store, type[Wire]] = {"session": SessionRecord, "knowledge": KnowledgeRecord}

ONE: Mapping[Store, str] = {
    store: f"SELECT {_JSON[store]} FROM {{schema}}.{_TABLES[store]} WHERE id = $1"  # noqa: S608
    for store in _TABLES
}
"""A document as the JSON of its record."""
# as many whole records as fit, at least one
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
SELECT {_json(PassedSession)} AS record FROM choir_memory.sessions
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
# nobody goes on with a session that was carried here
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
# an agent that has read on its own goes on from there
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
class Filed:
    """A document of an import as JSON, with what search needs of its text."""

    document_id: UUID
    record: str
    tsv: str
    tokens: int
    asking: float
    """Which share of it asks."""


class CarryStore:
    """One agent's memory on one connection, under the role its caller has taken."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def documents(self, store: Store, after: UUID | None) -> list[tuple[UUID, str]]:
        """Return the next documents by id, each as JSON."""
        sql = _PAGE.replace("{record}", _JSON[store]).replace("{table}", _TABLES[store])
        rows = await self._held.fetch(self._sql(sql), after, PAGE_ROWS, PAGE_BYTES)
        return [(row["id"], row["record"]) for row in rows]

    async def links(self, after: LinkRecord | None) -> list[LinkRecord]:
        """Return the next links."""
        place = (UUID(after.from_id), after.kind, UUID(after.to_id)) if after else (None,) * 3
        rows = await self._held.fetch(self._sql(_LINKS), *place, PAGE_ROWS)
        return [
            LinkRecord(from_id=str(row["from_id"]), kind=row["kind"], to_id=str(row["to_id"]))
            for row in rows
        ]

    async def passed_sessions(self, after: str | None) -> list[str]:
        """Return the next sessions, each as JSON; read as the service."""
        rows = await self._held.fetch(_PASSED, self._agent_id, after, PAGE_ROWS)
        return [row["record"] for row in rows]

    async def extraction_cursor(self) -> list[ExtractionCursor]:
        """Return how far facts were extracted; nothing at the beginning. Read as the service."""
        stored = await self._held.fetchval(_EXTRACTED, self._agent_id, CURSOR)
        if stored is None:
            return []
        place = read_position(dict(orjson.loads(stored)))
        return [
            ExtractionCursor(
                created_at=place.created_at,
                session_id=place.session_id,
                chunk_index=place.chunk_index,
            )
        ]

    async def begin_extraction(self, cursors: Sequence[ExtractionCursor]) -> int:
        """Have extraction go on behind a turn; return how often it did. Written as the service.

        Without effect where it has begun already: what was read there stays read.
        """
        begun = 0
        for one in cursors:
            place = write_position(Position(one.created_at, one.session_id, one.chunk_index))
            text = orjson.dumps(place).decode()
            begun += len(await self._held.fetch(_BEGIN_EXTRACTION, self._agent_id, CURSOR, text))
        return begun

    async def insert(self, store: Store, filed: Sequence[Filed]) -> tuple[set[UUID], set[UUID]]:
        """Add documents; return which are new, and which stand there already as given.

        Raises BadInput when the database does not take one.
        """
        if not filed:
            return set(), set()
        records = [one.record for one in filed]
        names = [name for name in _SHAPES[store].model_fields if name != "type"]
        sql = (
            _INSERT.replace("{table}", _TABLES[store])
            .replace("{columns}", ", ".join(names))
            .replace("{filled}", ", ".join(f"filled.{name}" for name in names))
            # only words that were said can ask
            .replace("{asking}", ", asking" if store == "session" else "")
            .replace("{given_asking}", ", given.asking" if store == "session" else "")
        )
        tsvs, tokens = [one.tsv for one in filed], [one.tokens for one in filed]
        asking = [one.asking for one in filed]
        try:
            new = await self._held.fetch(self._sql(sql), records, tsvs, tokens, asking)
        except Refused as error:
            raise BadInput(
                f"A record does not fit what memory keeps: {error}. Nothing of this piece was stored."
            ) from error
        added = {row["id"] for row in new}
        old = [one.record for one in filed if one.document_id not in added]
        sql = self._sql(_SAME.replace("{table}", _TABLES[store]))
        return added, {row["id"] for row in await self._held.fetch(sql, old)} if old else set()

    async def link(self, links: Sequence[LinkRecord]) -> int:
        """Add links; return how many are new. Raises BadInput when the database does not take one."""
        columns = [
            [UUID(one.from_id) for one in links],
            [one.kind for one in links],
            [UUID(one.to_id) for one in links],
        ]
        try:
            return len(await self._held.fetch(self._sql(_LINK), *columns)) if links else 0
        except Refused as error:
            raise BadInput(
                f"A link does not fit what memory keeps: {error}. Nothing of this piece was stored."
            ) from error

    async def erased_sessions(self, session_ids: Collection[str | None]) -> set[str | None]:
        """Return those of these sessions that were erased; read as the service."""
        rows = await self._held.fetch(_ERASED, self._agent_id, list(session_ids))
        return {row["session_id"] for row in rows}

    async def pass_sessions(self, sessions: Sequence[PassedSession]) -> int:
        """Note sessions that have passed; return how many are new. Written as the service."""
        records = [one.model_dump_json() for one in sessions]
        return len(await self._held.fetch(_NOTE_PASSED, self._agent_id, records)) if records else 0

    async def progress(self, import_id: str, done: int, total: int) -> None:
        """Note how far an import is, or that it has ended. Written as the service."""
        if done >= total:
            await self._held.execute(_FINISHED, self._agent_id, import_id)
        else:
            await self._held.execute(_PROGRESS, self._agent_id, import_id, done, total)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)

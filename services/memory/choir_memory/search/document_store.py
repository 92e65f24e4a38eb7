"""Read documents to return: hits, their context, and sessions in order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection, Record
from choir_common.wire.memory_search import Grain, Kind, Status, Tier
from choir_common.wire.model import JsonObject
from choir_memory.documents.status import KNOWLEDGE_STATUS, SESSION_STATUS, SUPERSEDED_BY
from choir_memory.search.scope_store import SearchScope

_SESSION_COLUMNS = f"""
d.id, NULL AS key, d.text, d.created_at, d.created_at AS updated_at, d.metadata, d.kind, d.tier,
{SESSION_STATUS} AS status, d.session_id, d.chunk_index, d.speaker, d.happened_at, d.origin, d.trust,
d.version, NULL AS valid_from, NULL AS valid_to, NULL AS superseded_by, d.grain, d.period
"""
_KNOWLEDGE_COLUMNS = f"""
d.id, d.key, d.text, d.created_at, d.updated_at, d.metadata, d.kind, NULL AS tier,
{KNOWLEDGE_STATUS} AS status, d.collection AS session_id, d.chunk_index, NULL AS speaker,
{{happened_at}} AS happened_at, d.origin, d.trust, d.version, d.valid_from, d.valid_to,
{SUPERSEDED_BY} AS superseded_by, NULL AS grain, NULL AS period
"""
_READ = "SELECT {columns} FROM {documents} d WHERE d.id = ANY($1)"
_BESIDE = """
SELECT {columns} FROM {documents} d
JOIN unnest($1::text[], $2::int[]) AS place (name, at)
    ON {group} = place.name AND d.chunk_index = place.at
WHERE {scope}
"""
_IN_ORDER = """
SELECT {columns} FROM {documents} d WHERE d.chunk_index > $1 AND {scope}
ORDER BY d.chunk_index, d.tier LIMIT $2
"""
_NEWEST = """
SELECT {columns} FROM {documents} d WHERE {scope} ORDER BY {happened_at} DESC, d.id LIMIT $1
"""

DocumentPosition = tuple[str, int]
"""A session (or collection) and a position in it."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with the columns that are returned."""

    document_id: UUID
    key: str | None
    text: str
    created_at: datetime
    updated_at: datetime
    metadata: JsonObject
    kind: Kind
    tier: Tier | None
    status: Status
    session_id: str | None
    position: int | None
    speaker: str | None
    happened_at: datetime | None
    origin: str
    trust: int
    version: int
    valid_from: datetime | None
    valid_to: datetime | None
    superseded_by: tuple[UUID, ...]
    grain: Grain | None
    period: str | None

    @property
    def place(self) -> DocumentPosition | None:
        """Return its position among its neighbours, or None; a summary is not a neighbour of turns."""
        if self.session_id is None or self.position is None or self.tier == "long_term_summary":
            return None
        return (self.session_id, self.position)


async def read_documents(
    connection: Connection, scope: SearchScope, document_ids: Sequence[UUID]
) -> dict[UUID, StoredDocument]:
    """Return those of the documents that still exist."""
    if not document_ids:
        return {}
    rows = await connection.fetch(_sql(_READ, scope, 2), list(document_ids))
    return {document.document_id: document for document in map(_stored, rows)}


async def read_context(
    connection: Connection, scope: SearchScope, places: Iterable[DocumentPosition]
) -> dict[DocumentPosition, StoredDocument]:
    """Return the documents at these positions that `scope` allows."""
    columns = [list(column) for column in zip(*places, strict=True)]
    if not columns:
        return {}
    rows = await connection.fetch(_sql(_BESIDE, scope, 3), *columns, *scope.arguments)
    return {
        place: document for document in map(_stored, rows) if (place := document.place) is not None
    }


async def read_session_page(
    connection: Connection, scope: SearchScope, after: int, limit: int
) -> list[StoredDocument]:
    """Return the documents of a session after position `after`, in order."""
    rows = await connection.fetch(_sql(_IN_ORDER, scope, 3), after, limit, *scope.arguments)
    return [_stored(row) for row in rows]


async def read_newest(
    connection: Connection, scope: SearchScope, limit: int
) -> list[StoredDocument]:
    """Return the newest documents in the scope, newest first."""
    rows = await connection.fetch(_sql(_NEWEST, scope, 2), limit, *scope.arguments)
    return [_stored(row) for row in rows]


def _sql(statement: str, scope: SearchScope, first: int) -> str:
    session = scope.store == "session"
    statement = statement.replace("{columns}", _SESSION_COLUMNS if session else _KNOWLEDGE_COLUMNS)
    statement = statement.replace("{group}", "d.session_id" if session else "d.collection")
    return scope.sql(statement, first)


def _stored(row: Record) -> StoredDocument:
    return StoredDocument(
        row["id"],
        row["key"],
        row["text"],
        row["created_at"],
        row["updated_at"],
        orjson.loads(row["metadata"]),
        row["kind"],
        row["tier"],
        row["status"],
        row["session_id"],
        row["chunk_index"],
        row["speaker"],
        row["happened_at"],
        row["origin"],
        row["trust"],
        row["version"],
        row["valid_from"],
        row["valid_to"],
        tuple(row["superseded_by"] or ()),
        row["grain"],
        row["period"],
    )

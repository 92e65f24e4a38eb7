"""Read documents: those that were found, and a session in its order.

Called by `recall` on a connection that may read the agent's schema.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection
from choir_common.wire.json import JsonObject
from choir_memory.search.scope_store import Scope

_IN_ORDER = """
SELECT d.id FROM {documents} d WHERE {scope} ORDER BY d.session_id, d.tier, d.chunk_index LIMIT $1
"""
_READ_SESSION = """
SELECT id, NULL AS key, text, created_at, created_at AS updated_at, metadata,
       jsonb_build_object('session_id', session_id, 'tier', tier) AS origin
FROM {documents} WHERE id = ANY($1)
"""
_READ_KNOWLEDGE = """
SELECT id, key, text, created_at, updated_at, metadata, '{}'::jsonb AS origin
FROM {documents} WHERE id = ANY($1)
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it is shown."""

    document_id: UUID
    key: str | None
    text: str
    created_at: datetime
    updated_at: datetime
    metadata: JsonObject


async def in_order(held: Connection, scope: Scope, limit: int) -> list[UUID]:
    """Return the first documents of a session in the order they were lived."""
    rows = await held.fetch(scope.sql(_IN_ORDER, 2), limit, *scope.arguments)
    return [row["id"] for row in rows]


async def read(held: Connection, scope: Scope, document_ids: Sequence[UUID]) -> dict[UUID, Stored]:
    """Return the documents that still exist."""
    statement = _READ_SESSION if scope.store == "session" else _READ_KNOWLEDGE
    rows = await held.fetch(scope.sql(statement, 2), list(document_ids))
    return {
        row["id"]: Stored(
            row["id"],
            row["key"],
            row["text"],
            row["created_at"],
            row["updated_at"],
            orjson.loads(row["metadata"]) | orjson.loads(row["origin"]),
        )
        for row in rows
    }

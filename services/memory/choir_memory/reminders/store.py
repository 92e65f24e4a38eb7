"""Rules, and facts by the entities they mention, on a connection under the agent's role."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection, Record
from choir_common.wire.memory_recall import Reminder
from choir_common.wire.memory_search import MemoryReader
from choir_common.wire.model import JsonObject
from choir_memory.documents.model import readable_clause
from choir_memory.schema.store import qualified

Store = Literal["knowledge", "session"]

_FILLED = """
SELECT EXISTS (SELECT FROM {schema}.knowledge_documents) AS knowledge,
       EXISTS (SELECT FROM {schema}.memory_documents WHERE session_id IS DISTINCT FROM $1) AS session
"""
_COLUMNS = """d.id, d.kind, d.text, coalesce(d.happened_at, d.updated_at) AS at, d.origin, d.trust,
    CASE WHEN d.valid_from > $2 THEN d.valid_from END AS valid_from, d.valid_to"""
# `$4`: scopes; a document without a scope belongs to all
_USABLE = """d.status = 'active' AND d.trust >= $1 AND (d.expires_at IS NULL OR d.expires_at > $2)
    AND (d.valid_to IS NULL OR d.valid_to > $2)
    AND (cardinality($4::text[]) = 0 OR coalesce(d.metadata ->> 'scope' = ANY($4), true)){readable}"""
_RULES = f"""
SELECT {_COLUMNS} FROM {{schema}}.knowledge_documents d WHERE d.kind = 'rule' AND {_USABLE}
ORDER BY d.seen_count DESC, d.updated_at DESC, d.id LIMIT $3
"""  # noqa: S608 conditions of ours
# Also includes facts about other names of an entity: a fact of category `name` connects two names.
_ABOUT = f"""
WITH named AS (
    SELECT l.from_id, l.to_id FROM {{schema}}.links l
    WHERE l.kind = 'mentions' AND l.to_id = ANY($5::uuid[])
), same AS (
    SELECT o.to_id FROM named n
    JOIN {{schema}}.knowledge_documents d ON d.id = n.from_id AND d.category = 'name' AND {_USABLE}
    JOIN {{schema}}.links o ON o.from_id = n.from_id AND o.kind = 'mentions'
), facts AS (
    SELECT from_id, count(*) AS names FROM (
        SELECT from_id, to_id FROM named
        UNION SELECT l.from_id, l.to_id FROM {{schema}}.links l JOIN same s ON s.to_id = l.to_id
        WHERE l.kind = 'mentions') AS all_of_them GROUP BY from_id
)
SELECT {_COLUMNS} FROM facts f JOIN {{schema}}.knowledge_documents d ON d.id = f.from_id
WHERE d.kind = 'fact' AND {_USABLE} AND d.metadata @> $6::jsonb
ORDER BY f.names DESC, d.seen_count DESC, d.updated_at DESC, d.id LIMIT $3
"""  # noqa: S608 conditions of ours


# Summaries and episodes both retell a session; returns which of these the prompt already has.
_RETOLD = """
SELECT session_id, 'summary' AS kind FROM {schema}.memory_documents
WHERE id = ANY($1::uuid[]) AND tier = 'long_term_summary'
UNION SELECT metadata ->> 'session_id', kind FROM {schema}.knowledge_documents
WHERE id = ANY($1::uuid[]) AND kind = 'episode'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderStore:
    """Statements on one agent's knowledge; `now`, `min_trust`, `scopes` and `reader` apply to all of them."""

    connection: Connection
    agent_id: str
    now: datetime
    min_trust: int
    scopes: tuple[str, ...] = ()
    reader: MemoryReader | None = None

    async def list_nonempty_stores(self, session_id: str) -> tuple[Store, ...]:
        """Return the stores with any document that does not come from this session."""
        row = await self.connection.fetchrow(qualified(_FILLED, self.agent_id), session_id)
        stores: tuple[Store, ...] = ("knowledge", "session")
        return tuple(store for store in stores if row is not None and row[store])

    async def list_rules(self, limit: int) -> list[Reminder]:
        """Return the active rules, most frequently stated first."""
        return await self._read(_RULES, limit)

    async def list_facts_about(
        self, entities: Sequence[UUID], tags: JsonObject, limit: int
    ) -> list[Reminder]:
        """Return facts with these tags that mention these entities, those with the most mentions first."""
        if not entities:
            return []
        return await self._read(_ABOUT, limit, list(entities), orjson.dumps(tags).decode())

    async def list_summarised_sessions(self, document_ids: Sequence[UUID]) -> dict[str, str]:
        """Return the sessions that these documents summarise, with the kind of document."""
        rows = await self.connection.fetch(qualified(_RETOLD, self.agent_id), list(document_ids))
        return {row["session_id"]: row["kind"] for row in rows}

    async def _read(self, statement: str, limit: int, *more: object) -> list[Reminder]:
        arguments: list[object] = [self.min_trust, self.now, limit, list(self.scopes), *more]
        readable, more_arguments = readable_clause(self.reader, len(arguments) + 1)
        sql = qualified(statement.replace("{readable}", readable), self.agent_id)
        rows = await self.connection.fetch(sql, *arguments, *more_arguments)
        return [_reminder(row) for row in rows]


def _reminder(row: Record) -> Reminder:
    return Reminder(
        document_id=str(row["id"]),
        kind=row["kind"],
        text=row["text"],
        at=row["at"],
        origin=row["origin"],
        trust=row["trust"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
    )

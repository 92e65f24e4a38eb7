"""Store for derived and added documents in an agent's knowledge, on a connection under its role.

Called by the modules of this package inside their transactions.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection
from choir_memory.layers.known import Known
from choir_memory.schema.naming import qualified
from choir_memory.words.tokens import tsvector

_SAME = """
SELECT d.id, d.text = given.text AS same_text FROM {schema}.knowledge_documents d
JOIN unnest($1::uuid[], $2::text[]) AS given (id, text) ON given.id = d.id FOR NO KEY UPDATE OF d
"""
_PUT = """
INSERT INTO {schema}.knowledge_documents AS d
    (id, kind, text, tsv, tokens, origin, trust, status, category, subject, predicate, object, evidence,
     happened_at, valid_from, expires_at, collection, chunk_index, metadata)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
        $19::jsonb)
ON CONFLICT (id) DO UPDATE SET
    text = excluded.text, tsv = excluded.tsv, tokens = excluded.tokens, origin = excluded.origin,
    trust = excluded.trust, category = excluded.category, subject = excluded.subject,
    predicate = excluded.predicate, object = excluded.object, evidence = excluded.evidence,
    happened_at = excluded.happened_at, expires_at = excluded.expires_at,
    metadata = excluded.metadata, seen_count = d.seen_count + 1, updated_at = now(),
    version = d.version + (d.text <> excluded.text)::int
"""
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = ANY($1::uuid[])"


@dataclass(frozen=True, slots=True)
class PreparedKnown:
    """A document with its search tokens."""

    known: Known
    tsv: str
    tokens: int


async def prepare_known(documents: Sequence[Known]) -> list[PreparedKnown]:
    """Tokenize texts in a thread; call it before a transaction where possible."""
    return await asyncio.to_thread(lambda: [_cut(one) for one in documents])


class KnownStore:
    """Statements that write such documents."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def put(self, documents: Sequence[PreparedKnown]) -> list[UUID]:
        """Store documents; return those that need a vector because they are new or have a new text.

        `seen_count` of a document that exists already is incremented.
        """
        if not documents:
            return []
        ids = [one.known.document_id for one in documents]
        texts = [one.known.text for one in documents]
        rows = await self._held.fetch(self._sql(_SAME), ids, texts)
        same = {row["id"]: row["same_text"] for row in rows}
        await self._held.executemany(self._sql(_PUT), [_columns(one) for one in documents])
        changed = [one for one, kept in same.items() if not kept]
        await self._held.execute(self._sql(_DROP_VECTORS), changed)
        return [one for one in ids if not same.get(one, False)]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _cut(known: Known) -> PreparedKnown:
    tokens = known.tokens()
    return PreparedKnown(known, tsvector(tokens), len(tokens))


def _columns(one: PreparedKnown) -> tuple[object, ...]:
    known = one.known
    return (
        *(known.document_id, known.kind, known.text, one.tsv, one.tokens),
        *(known.origin, known.trust, known.status, known.category),
        *(known.subject, known.predicate, known.object, known.evidence),
        *(known.happened_at, known.valid_from, known.expires_at),
        *(known.collection, known.chunk_index, orjson.dumps(known.metadata).decode()),
    )

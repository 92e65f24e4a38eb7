"""Time summaries and what they are made of, in one agent's own schema.

Called by `consolidate` on a connection under the agent's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

import orjson

from choir_common.postgres.pool import Connection
from choir_memory.grains.periods import Grain, coarser_period, finer, is_over, span
from choir_memory.schema.naming import qualified
from choir_memory.words.tokens import document_tokens, tsvector

_NAMESPACE = UUID("6a1a7f0e-7a0c-5d54-9b7a-0c1f4a3d2b11")
MAX_SOURCES = 5_000
"""Turns of one day that are read; the selection samples them evenly anyway."""

# a day's turns; `expires_at` is a promise not to keep, so what bears it is not summed up either
_DAYS = """
SELECT to_char(happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS period, id, version
FROM {schema}.memory_documents
WHERE tier IN ('mid_term', 'long_term_detail') AND kind IN ('turn', 'note') AND expires_at IS NULL
"""
_SUMMARIES = """
SELECT period, id, version FROM {schema}.memory_documents WHERE grain = $1
"""
_DIGESTS = """
SELECT period, md5(string_agg(id::text || '.' || version, ',' ORDER BY id)) AS digest,
       array_agg(id ORDER BY id) AS ids
FROM ({sources}) AS sources GROUP BY period ORDER BY period
"""
_MADE = """
SELECT period, metadata ->> 'sources' AS digest, metadata ->> 'by' AS by
FROM {schema}.memory_documents WHERE grain = $1
"""
_READ = """
SELECT id, coalesce(period, '') AS period, speaker, happened_at, text, trust
FROM {schema}.memory_documents WHERE id = ANY($1::uuid[])
ORDER BY happened_at, session_id, chunk_index LIMIT $2
"""
# whoever erases a source waits for us, and then finds our links
_HOLD = "SELECT id FROM {schema}.memory_documents WHERE id = ANY($1::uuid[]) FOR KEY SHARE"
_WRITE = """
INSERT INTO {schema}.memory_documents (id, session_id, tier, chunk_index, kind, text, tsv, tokens,
    happened_at, ended_at, grain, period, origin, trust, metadata)
VALUES ($1, NULL, 'grain_summary', 0, 'summary', $2, $3::text::tsvector, $4, $5, $6, $7, $8,
    'derived', $9, $10::jsonb)
ON CONFLICT (id) DO UPDATE SET text = excluded.text, tsv = excluded.tsv, tokens = excluded.tokens,
    trust = excluded.trust, metadata = excluded.metadata,
    version = {schema}.memory_documents.version + 1
"""
_DROP_VECTORS = "DELETE FROM {schema}.memory_embeddings WHERE document_id = $1"
_DROP_LINKS = "DELETE FROM {schema}.links WHERE from_id = $1 AND kind = 'rolls_up'"
_LINK = """
INSERT INTO {schema}.links (from_id, kind, to_id)
SELECT $1, 'rolls_up', source FROM unnest($2::uuid[]) AS source ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Due:
    """A period whose summary is missing, or says what its sources no longer do."""

    grain: Grain
    period: str
    digest: str
    source_ids: tuple[UUID, ...]
    changed: bool
    """Whether its sources are new; else it was summed up by selection, and a model could do better."""


@dataclass(frozen=True, slots=True)
class Source:
    """A turn, or the summary of a finer period."""

    document_id: UUID
    period: str
    speaker: str | None
    happened_at: datetime
    text: str
    trust: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What is written down about a period, and who made it: a model's name, or `selection`."""

    text: str
    by: str
    trust: int


class GrainStore:
    """The statements over one agent's time summaries."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def due(self, grain: Grain, now: datetime, *, wants_model: bool) -> list[Due]:
        """Return the periods that are over and must be summed up, from early to late.

        With `wants_model` also those that were summed up by selection while no model answered.
        """
        made = {row["period"]: row for row in await self._held.fetch(self._sql(_MADE), grain)}
        found: list[Due] = []
        for period, digest, ids in await self._sources(grain):
            before = made.get(period)
            changed = before is None or before["digest"] != digest
            better = before is not None and wants_model and before["by"] == "selection"
            if (changed or better) and is_over(grain, period, now):
                found.append(Due(grain, period, digest, tuple(ids), changed))
        return found

    async def read(self, due: Due) -> list[Source]:
        """Return what a period is made of, in the order it happened."""
        rows = await self._held.fetch(self._sql(_READ), list(due.source_ids), MAX_SOURCES)
        return [Source(*row) for row in rows]

    async def write(self, due: Due, summary: Summary) -> UUID | None:
        """Store a period's summary in place of the one it had; return its id.

        None when a source was erased since it was read: its words must not come back. The summary has
        no vector until the queue makes one.
        """
        kept = await self._held.fetch(self._sql(_HOLD), list(due.source_ids))
        if len(kept) != len(due.source_ids):
            return None
        document_id = summary_id(self._agent_id, due.grain, due.period)
        start, end = span(due.grain, due.period)
        tokens = document_tokens(summary.text)
        metadata = {"sources": due.digest, "by": summary.by, "count": len(due.source_ids)}
        await self._held.execute(
            self._sql(_WRITE),
            *(document_id, summary.text, tsvector(tokens), len(tokens), start, end),
            *(due.grain, due.period, summary.trust, orjson.dumps(metadata).decode()),
        )
        await self._held.execute(self._sql(_DROP_VECTORS), document_id)
        await self._held.execute(self._sql(_DROP_LINKS), document_id)
        await self._held.execute(self._sql(_LINK), document_id, list(due.source_ids))
        return document_id

    async def _sources(self, grain: Grain) -> list[tuple[str, str, Sequence[UUID]]]:
        """Return each period that has sources, a digest of them, and which they are."""
        made_of = finer(grain)
        if made_of is None:
            rows = await self._held.fetch(self._sql(_DIGESTS.replace("{sources}", _DAYS)))
            return [(row["period"], row["digest"], row["ids"]) for row in rows]
        sql = _DIGESTS.replace("{sources}", _SUMMARIES)
        periods: dict[str, list[tuple[str, UUID]]] = {}
        for row in await self._held.fetch(self._sql(sql), made_of):
            into = coarser_period(made_of, row["period"])
            periods.setdefault(into, []).extend((row["digest"], one) for one in row["ids"])
        return [
            (period, ",".join(digest for digest, _ in of), [one for _, one in of])
            for period, of in sorted(periods.items())
        ]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def summary_id(agent_id: str, grain: Grain, period: str) -> UUID:
    """Return the id of a period's summary, the same however often it is made."""
    return uuid5(_NAMESPACE, f"{agent_id}:{grain}:{period}")

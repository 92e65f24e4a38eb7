"""Time summaries and their sources, in one agent's own schema and under its role."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection, Record
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import (
    Conversations,
    Grain,
    UnitRow,
    document_id,
    parse_conversations,
    readable_clause,
)
from choir_memory.documents.store import DocumentStore, Link, LinkStore, prepare_units
from choir_memory.schema.store import qualified
from choir_memory.summaries.periods import coarser_period, finer_grain, is_over, period_range

MAX_SOURCES = 5_000
"""Maximum turns of one day that are read; the selection samples them evenly anyway."""

# turns with `expires_at` are left out: a summary would keep their content longer; and those whose
# lessons were taken back
_DAYS = """
SELECT to_char(happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS period, id, version
FROM {schema}.memory_documents d
WHERE tier IN ('mid_term', 'long_term_detail') AND kind IN ('turn', 'note') AND expires_at IS NULL
  AND NOT metadata ? 'unlearned'{readable}
"""
_SUMMARIES = """
SELECT period, id, version FROM {schema}.memory_documents d WHERE grain = '{finer}'{readable}
"""
_DIGESTS = """
SELECT period, count(*) || ':' || bit_xor(hashtextextended(id::text || '.' || version, 0)) AS digest
FROM ({sources}) AS sources GROUP BY period ORDER BY period
"""
# only for due periods: for an old agent all ids would be megabytes
_IDS = """
SELECT period, array_agg(id ORDER BY id) AS ids
FROM ({sources}) AS sources WHERE period = ANY($1::text[]) GROUP BY period
"""
_MADE = """
SELECT period, metadata ->> 'sources' AS digest, metadata ->> 'by' AS by
FROM {schema}.memory_documents WHERE grain = $1 AND chunk_index = $2
"""
_ALL = "SELECT grain, period FROM {schema}.memory_documents WHERE grain IS NOT NULL"
_READ = """
SELECT id, coalesce(period, '') AS period, speaker, happened_at, text, trust, conversations
FROM {schema}.memory_documents WHERE id = ANY($1::uuid[])
ORDER BY happened_at, session_id, chunk_index LIMIT $2
"""
# an erasure or undo of a source waits for this transaction, and then finds the links
_HOLD = """
SELECT id FROM {schema}.memory_documents
WHERE id = ANY($1::uuid[]) AND NOT metadata ? 'unlearned' FOR KEY SHARE
"""
_DROP_LINKS = "DELETE FROM {schema}.links WHERE from_id = $1 AND kind = 'rolls_up'"


@dataclass(frozen=True, slots=True)
class DuePeriod:
    """A period without a summary, or with one that is out of date."""

    grain: Grain
    period: str
    digest: str
    source_ids: tuple[UUID, ...]
    changed: bool
    """Whether the sources changed; if not, the summary is a selection that a model could improve."""
    place: int = 0
    """The number of the reader's summaries among those of the period (`reader_place`)."""


@dataclass(frozen=True, slots=True)
class _PeriodSources:
    """Sources of a period: their digest, and the finer periods they belong to (for a day: itself)."""

    digest: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SummarySource:
    """A turn, or the summary of a finer period."""

    document_id: UUID
    period: str
    speaker: str | None
    happened_at: datetime
    text: str
    trust: int
    conversations: Conversations = None


@dataclass(frozen=True, slots=True)
class PeriodSummary:
    """A period's summary, and its author: a model's name, or `selection`."""

    text: str
    by: str
    trust: int
    conversations: Conversations = None


def reader_place(reader: MemoryReader | None) -> int:
    """Return the number of a reader's summaries: 0 for the person of the home conversation, and for all."""
    if reader is None or reader.with_older:
        return 0
    digest = hashlib.sha256(min(reader.conversations).encode()).digest()
    return 1 + int.from_bytes(digest[:4]) // 4


class SummaryStore:
    """Statements on one agent's time summaries; with a `reader`, on those of this reader's documents."""

    def __init__(
        self, connection: Connection, agent_id: str, reader: MemoryReader | None = None
    ) -> None:
        self._connection = connection
        self._agent_id = agent_id
        self._reader = reader

    async def due(self, grain: Grain, now: datetime, *, wants_model: bool) -> list[DuePeriod]:
        """Return the periods that are over and need a summary, in chronological order.

        With `wants_model`, also those with a selection from a time when no model was available.
        """
        sources_by_period = await self._sources(grain)
        if not sources_by_period:
            return []
        summary_rows = {
            row["period"]: row
            for row in await self._connection.fetch(
                self._sql(_MADE), grain, reader_place(self._reader)
            )
        }
        due: list[tuple[str, _PeriodSources, bool]] = []
        for period, sources in sources_by_period.items():
            summary_row = summary_rows.get(period)
            changed = summary_row is None or summary_row["digest"] != sources.digest
            better = summary_row is not None and wants_model and summary_row["by"] == "selection"
            if (changed or better) and is_over(grain, period, now):
                due.append((period, sources, changed))
        if not due:
            return []
        ids = await self._ids(grain, [part for _, sources, _ in due for part in sources.parts])
        return [
            DuePeriod(
                grain,
                period,
                sources.digest,
                tuple(source_id for part in sources.parts for source_id in ids[part]),
                changed,
                reader_place(self._reader),
            )
            for period, sources, changed in due
            if all(part in ids for part in sources.parts)
        ]

    async def list_summarized(self) -> set[tuple[Grain, str]]:
        """Return all periods that have a summary."""
        return {
            (row["grain"], row["period"]) for row in await self._connection.fetch(self._sql(_ALL))
        }

    async def read(self, due: DuePeriod) -> list[SummarySource]:
        """Return the sources of a period in chronological order."""
        rows = await self._connection.fetch(self._sql(_READ), list(due.source_ids), MAX_SOURCES)
        return [_source(row) for row in rows]

    async def write(self, due: DuePeriod, summary: PeriodSummary) -> UUID | None:
        """Store a period's summary, replacing an existing one; return its id.

        Return None when a source was erased or undone after it was read, because its content must not be
        stored again. The summary has no vector until the queue creates one.
        """
        locked = await self._connection.fetch(self._sql(_HOLD), list(due.source_ids))
        if len(locked) != len(due.source_ids):
            return None
        row = _row(self._agent_id, due, summary)
        documents = DocumentStore(self._connection, self._agent_id)
        await documents.upsert(await prepare_units([row]))
        await self._connection.execute(self._sql(_DROP_LINKS), row.document_id)
        links = [Link(row.document_id, "rolls_up", source) for source in due.source_ids]
        await LinkStore(self._connection, self._agent_id).add(links)
        return row.document_id

    async def _sources(self, grain: Grain) -> dict[str, _PeriodSources]:
        """Return the periods with sources, each with a digest of them and the finer periods it consists
        of."""
        rows = await self._over_sources(_DIGESTS, grain)
        made_of = finer_grain(grain)
        sources_by_period: dict[str, _PeriodSources] = {}
        for row in rows:
            period = row["period"] if made_of is None else coarser_period(made_of, row["period"])
            before = sources_by_period.get(period, _PeriodSources("", ()))
            digest = f"{before.digest},{row['digest']}".lstrip(",")
            sources_by_period[period] = _PeriodSources(digest, (*before.parts, row["period"]))
        return sources_by_period

    async def _ids(self, grain: Grain, parts: Sequence[str]) -> dict[str, Sequence[UUID]]:
        rows = await self._over_sources(_IDS, grain, list(parts))
        return {row["period"]: row["ids"] for row in rows}

    async def _over_sources(
        self, statement: str, grain: Grain, *arguments: object
    ) -> Sequence[Record]:
        made_of = finer_grain(grain)
        sources = _DAYS if made_of is None else _SUMMARIES.replace("{finer}", made_of)
        readable, more = readable_clause(self._reader, len(arguments) + 1)
        sources = sources.replace("{readable}", readable)
        sql = self._sql(statement.replace("{sources}", sources))
        return await self._connection.fetch(sql, *arguments, *more)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _source(row: Record) -> SummarySource:
    conversations = parse_conversations(row["conversations"])
    return replace(SummarySource(*row[:6]), conversations=conversations)


def _row(agent_id: str, due: DuePeriod, summary: PeriodSummary) -> UnitRow:
    start, end = period_range(due.grain, due.period)
    return UnitRow(
        document_id=document_id(
            agent_id, due.grain, due.period, *([str(due.place)] if due.place else [])
        ),
        session_id=None,
        tier="grain_summary",
        chunk_index=due.place,
        kind="summary",
        text=summary.text,
        happened_at=start,
        ended_at=end,
        grain=due.grain,
        period=due.period,
        origin="derived",
        trust=summary.trust,
        conversations=summary.conversations,
        metadata={"sources": due.digest, "by": summary.by, "count": len(due.source_ids)},
    )

"""Sums over the table `ledger`, for reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from choir_common.postgres.pool import Database, Record
from choir_common.wire.money import CostGroup, CostLine

MAX_LINES = 10_000
_GROUPS: dict[CostGroup, str] = {
    "day": "day::text",
    "month": "to_char(day, 'YYYY-MM')",
    "agent": "coalesce(agent_id, '')",
    "session": "coalesce(session_id, '')",
    "job": "coalesce(job_id, '')",
    "model": "model",
    "kind": "kind",
    # the id of an entry is `SESSION:REVISION`; a call that was lost in a crash has no event
    "event": """CASE WHEN starts_with(entry_id, session_id || ':')
        THEN split_part(entry_id, ':', 2) ELSE '' END""",
}
_SUMS = """
sum(calls)::bigint AS calls, coalesce(sum(cost_usd), 0) AS cost_usd,
coalesce(sum(calls) FILTER (WHERE cost_usd IS NULL), 0)::bigint AS unknown_calls,
coalesce(sum(prompt_tokens + completion_tokens) FILTER (WHERE cost_usd IS NULL), 0)::bigint AS unknown_tokens,
coalesce(sum(calls) FILTER (WHERE source IN ('estimated', 'reserved')), 0)::bigint AS estimated_calls,
sum(prompt_tokens)::bigint AS prompt_tokens, sum(cached_tokens)::bigint AS cached_tokens,
sum(completion_tokens)::bigint AS completion_tokens, sum(reasoning_tokens)::bigint AS reasoning_tokens
"""
_REPORT = """
SELECT {group} AS line, {sums} FROM choir_control.ledger
WHERE day >= $1 AND day <= $2 AND ($3::text IS NULL OR agent_id = $3)
  AND ($4::text IS NULL OR session_id = $4) AND ($5::text IS NULL OR job_id = $5)
  AND ($6::text IS NULL OR model = $6)
GROUP BY 1 ORDER BY {order} LIMIT {limit}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuery:
    """The entries that a report is about."""

    since: date
    until: date
    """The last day."""
    agent_id: str | None = None
    session_id: str | None = None
    job_id: str | None = None
    model: str | None = None


class CostStore:
    """Reader of the ledger's sums."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sum_by(self, group: CostGroup, query: CostQuery) -> list[CostLine]:
        """Return the sums by group: days in order, other groups by cost, the highest first."""
        order = "1" if group in ("day", "month") else "cost_usd DESC, unknown_tokens DESC, 1"
        statement = _REPORT.format(group=_GROUPS[group], sums=_SUMS, order=order, limit=MAX_LINES)
        rows = await self._database.fetch(
            statement, query.since, query.until, query.agent_id, query.session_id, query.job_id,
            query.model,
        )  # fmt: skip
        return [_line(row) for row in rows]


def total_of(lines: Sequence[CostLine]) -> CostLine:
    """Return the sum of lines."""
    counted = (
        "calls", "unknown_calls", "unknown_tokens", "estimated_calls", "prompt_tokens", "cached_tokens",
        "completion_tokens", "reasoning_tokens",
    )  # fmt: skip
    sums = {name: sum(getattr(line, name) for line in lines) for name in counted}
    cost = sum((line.cost_usd for line in lines), Decimal(0))
    return CostLine(group="", cost_usd=cost, **sums)


def _line(row: Record) -> CostLine:
    values = {name: value for name, value in row.items() if name != "line"}
    return CostLine(group=row["line"], **values)

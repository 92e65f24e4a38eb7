"""Retention of the table `ledger`: single calls become sums of a day.

A sum is a row like any other, so that reports and budgets need no second table.
"""

from datetime import timedelta

from choir_common.postgres.pool import Database

# The calls of sessions that have not ended stay: a limit for the session or a job needs them.
_SUM_UP = """
WITH old AS (
    SELECT entry_id FROM choir_control.ledger AS l
    WHERE at < clock_timestamp() - $1::interval AND entry_id NOT LIKE 'day:%'
      AND NOT EXISTS (SELECT FROM choir_control.sessions AS s
                      WHERE s.session_id = l.session_id AND s.ended_at IS NULL)
    ORDER BY at LIMIT $2
), gone AS (
    DELETE FROM choir_control.ledger WHERE entry_id IN (SELECT entry_id FROM old) RETURNING *
), summed AS (
    INSERT INTO choir_control.ledger AS l
        (entry_id, agent_id, kind, name, model, at, day, calls, prompt_tokens, cached_tokens,
         cache_write_tokens, completion_tokens, reasoning_tokens, audio_tokens, image_tokens, audio_seconds,
         characters, cost_usd, computed_usd, billed_usd, source)
    SELECT 'day:' || md5(concat_ws('|', day, coalesce(agent_id, ''), kind, name, model, source)), agent_id,
        kind, name, model, max(at), day, sum(calls), sum(prompt_tokens), sum(cached_tokens),
        sum(cache_write_tokens), sum(completion_tokens), sum(reasoning_tokens), sum(audio_tokens),
        sum(image_tokens), sum(audio_seconds), sum(characters), sum(cost_usd), sum(computed_usd),
        sum(billed_usd), source
    FROM gone GROUP BY day, agent_id, kind, name, model, source
    ON CONFLICT (entry_id) DO UPDATE SET
        at = greatest(l.at, excluded.at),
        calls = l.calls + excluded.calls,
        prompt_tokens = l.prompt_tokens + excluded.prompt_tokens,
        cached_tokens = l.cached_tokens + excluded.cached_tokens,
        cache_write_tokens = l.cache_write_tokens + excluded.cache_write_tokens,
        completion_tokens = l.completion_tokens + excluded.completion_tokens,
        reasoning_tokens = l.reasoning_tokens + excluded.reasoning_tokens,
        audio_tokens = l.audio_tokens + excluded.audio_tokens,
        image_tokens = l.image_tokens + excluded.image_tokens,
        audio_seconds = coalesce(l.audio_seconds + excluded.audio_seconds, l.audio_seconds,
                                 excluded.audio_seconds),
        characters = coalesce(l.characters + excluded.characters, l.characters, excluded.characters),
        cost_usd = l.cost_usd + excluded.cost_usd,
        computed_usd = coalesce(l.computed_usd + excluded.computed_usd, l.computed_usd,
                                excluded.computed_usd),
        billed_usd = coalesce(l.billed_usd + excluded.billed_usd, l.billed_usd, excluded.billed_usd)
)
SELECT count(*) FROM gone
"""
_GRANTS = """
WITH gone AS (
    DELETE FROM choir_control.budget_grants WHERE (session_id, rev) IN (
        SELECT session_id, rev FROM choir_control.budget_grants AS g
        WHERE at < clock_timestamp() - $1::interval
          AND NOT EXISTS (SELECT FROM choir_control.sessions AS s
                          WHERE s.session_id = g.session_id AND s.ended_at IS NULL)
        ORDER BY at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""


class OldLedgerStore:
    """Store operations for old entries; each handles up to `limit` rows and returns how many."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sum_up(self, keep: timedelta, limit: int) -> int:
        """Replace entries older than `keep` by sums of their day, agent, model and source."""
        return int(await self._database.fetchval(_SUM_UP, keep, limit))

    async def prune_grants(self, keep: timedelta, limit: int) -> int:
        """Delete grants older than `keep` whose sessions have ended."""
        return int(await self._database.fetchval(_GRANTS, keep, limit))

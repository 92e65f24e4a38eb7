"""The tables `ledger` and `budget_grants`, whose rows are stored by the statement that stores their events.

Each fragment of SQL is a list of CTEs after a CTE `head` with the columns `session_id` and `agent_id` of the
sessions whose events are stored.
"""

from collections.abc import Iterable, Sequence

import orjson

from choir_common.postgres.pool import Database
from choir_control.money.charges import Charge, PricedGrant

_COLUMNS = """session_id text, entry_id text, agent_id text, lane text, job_id text, kind text, name text,
    model text, at timestamptz, day date, calls integer, prompt_tokens bigint, cached_tokens bigint,
    cache_write_tokens bigint, completion_tokens bigint, reasoning_tokens bigint, audio_tokens bigint,
    image_tokens bigint, audio_seconds numeric, characters bigint, cost_usd numeric, computed_usd numeric,
    billed_usd numeric, source text, reservation text"""
_STORED = """entry_id, agent_id, session_id, lane, job_id, kind, name, model, at, day, calls,
    prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, reasoning_tokens, audio_tokens,
    image_tokens, audio_seconds, characters, cost_usd, computed_usd, billed_usd, source"""

_INSERT_CHARGES = f"""
WITH charge AS (
    SELECT c.* FROM json_to_recordset($1::json) AS c({_COLUMNS})
), settled AS (
    DELETE FROM choir_control.budget_reservations AS r USING charge
    WHERE r.reservation = charge.reservation AND r.session_id IS NULL
), recovered AS (
    DELETE FROM choir_control.ledger AS l USING charge
    WHERE l.entry_id = charge.reservation AND l.source = 'reserved' AND l.session_id IS NULL
)
INSERT INTO choir_control.ledger ({_STORED}) SELECT {_STORED} FROM charge
ON CONFLICT (entry_id) DO NOTHING RETURNING entry_id
"""  # noqa: S608 - constants only


class LedgerStore:
    """Store of ledger entries without an event: those of other services."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, charges: Sequence[Charge]) -> list[Charge]:
        """Store entries, each id once; return those that were new."""
        rows = dump_rows(charge_rows(None, charges))
        new_rows = await self._database.fetch(_INSERT_CHARGES, rows)
        new_ids = {row["entry_id"] for row in new_rows}
        return [charge for charge in charges if charge.usage.entry_id in new_ids]


def charge_ctes(parameter: int) -> str:
    """Return the CTEs that store the charges in the JSON parameter with this number.

    A charge settles its reservation, also one that was already counted as lost.
    """
    return f"""charge AS (
    SELECT c.* FROM json_to_recordset(${parameter}::json) AS c({_COLUMNS})
    JOIN head ON head.session_id = c.session_id
), charged AS (
    INSERT INTO choir_control.ledger ({_STORED}) SELECT {_STORED} FROM charge
    ON CONFLICT (entry_id) DO NOTHING
), settled AS (
    DELETE FROM choir_control.budget_reservations AS r USING charge
    WHERE r.reservation = charge.reservation AND r.session_id = charge.session_id
), recovered AS (
    DELETE FROM choir_control.ledger AS l USING charge
    WHERE l.entry_id = charge.reservation AND l.source = 'reserved' AND l.session_id = charge.session_id
)"""  # noqa: S608 - constants only


def grant_ctes(parameter: int) -> str:
    """Return the CTE that stores the grants in the JSON parameter with this number."""
    return f"""granted AS (
    INSERT INTO choir_control.budget_grants (session_id, rev, agent_id, budget, amount_usd, at)
    SELECT head.session_id, g.rev, head.agent_id, g.budget, g.amount_usd, g.at
    FROM head, json_to_recordset(${parameter}::json)
        AS g(rev bigint, budget text, amount_usd numeric, at timestamptz)
)"""  # noqa: S608 - constants only


def charge_rows(session_id: str | None, charges: Iterable[Charge]) -> list[dict[str, object]]:
    """Return the rows for `charge_ctes`, before they are dumped."""
    return [_row(session_id, charge) for charge in charges]


def dump_rows(rows: list[dict[str, object]]) -> str:
    """Return rows as JSON text."""
    return orjson.dumps(rows, default=str).decode() if rows else "[]"


def dump_grants(grants: Iterable[PricedGrant]) -> str:
    """Return the grants as JSON text for `grant_ctes`."""
    return dump_rows(
        [
            {
                "rev": priced.grant.rev,
                "budget": priced.grant.budget,
                "amount_usd": str(priced.amount),
                "at": priced.grant.at,
            }
            for priced in grants
        ]
    )


def _row(session_id: str | None, charge: Charge) -> dict[str, object]:
    usage = charge.usage
    return {
        "session_id": session_id,
        "entry_id": usage.entry_id,
        "agent_id": charge.agent_id,
        "lane": usage.lane,
        "job_id": usage.job_id,
        "kind": usage.kind,
        "name": usage.name,
        "model": usage.model,
        "at": usage.at,
        "day": charge.day,
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "audio_tokens": usage.audio_input_tokens + usage.audio_output_tokens,
        "image_tokens": usage.image_tokens,
        "audio_seconds": usage.audio_seconds,
        "characters": usage.characters,
        "cost_usd": charge.cost,
        "computed_usd": charge.computed,
        "billed_usd": usage.billed_usd,
        "source": charge.source,
        "reservation": usage.reservation,
    }

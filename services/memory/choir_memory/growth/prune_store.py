"""Delete receipts, audit entries and call ids that are older than their retention. Called by `upkeep`.

Receipts and audit entries are deleted in small batches, so that no writer has to wait long.
"""

from collections.abc import Sequence

from choir_common.postgres.pool import AloneConnection
from choir_memory.schema.naming import qualified

AT_ONCE = 5_000

_RECEIPTS = """
DELETE FROM choir_memory.receipts WHERE id IN (
    SELECT id FROM choir_memory.receipts WHERE at < now() - make_interval(days => $1)
    ORDER BY at LIMIT $2)
"""
_AUDIT = """
DELETE FROM choir_memory.audit WHERE at < now() - make_interval(days => $1) AND id IN (
    SELECT id FROM choir_memory.audit ORDER BY id LIMIT $2)
"""
_OPERATIONS = """
DELETE FROM {schema}.operations WHERE made_at < now() - make_interval(days => $1)
"""
_AGENTS = """
SELECT agent_id FROM choir_memory.spaces WHERE agent_id > $1 ORDER BY agent_id LIMIT $2
"""


async def prune_receipts(held: AloneConnection, days: int) -> int:
    """Delete receipts older than `days`; return how many."""
    return await _all_of(held, _RECEIPTS, days)


async def prune_audit(held: AloneConnection, days: int) -> int:
    """Delete audit entries older than `days`; return how many."""
    return await _all_of(held, _AUDIT, days)


async def prune_operations(held: AloneConnection, agents: Sequence[str], days: int) -> int:
    """Delete the stored answers of call ids older than `days`; return how many."""
    tags = [await held.execute(qualified(_OPERATIONS, agent), days) for agent in agents]
    return sum(map(_count, tags))


async def next_agents(held: AloneConnection, after: str, limit: int) -> list[str]:
    """Return the next agents in the order of their ids."""
    return [row["agent_id"] for row in await held.fetch(_AGENTS, after, limit)]


async def _all_of(held: AloneConnection, statement: str, days: int) -> int:
    total = 0
    while gone := _count(await held.execute(statement, days, AT_ONCE)):
        total += gone
    return total


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])

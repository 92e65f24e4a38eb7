"""Delete receipts, audit entries, call ids and changes of spaces that are older than their retention.

Receipts and audit entries are deleted in small batches, so that no writer has to wait long.
"""

from collections.abc import Sequence

from choir_common.postgres.pool import DedicatedConnection
from choir_memory.schema.store import qualified

BATCH_SIZE = 5_000

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
# two steps: a row may be hours older than the end of its transaction, from which on it is needed
_SEE_CHANGES = "UPDATE choir_memory.space_changes SET seen_at = now() WHERE seen_at IS NULL"
_CHANGES = """
DELETE FROM choir_memory.space_changes WHERE seen_at < now() - make_interval(secs => $1)
"""
CHANGES_KEPT_S = 3_600.0
"""Seconds for which changes of spaces are kept: many times the age of what a search keeps in memory."""
_AGENTS = """
SELECT agent_id FROM choir_memory.spaces WHERE agent_id > $1 ORDER BY agent_id LIMIT $2
"""


async def prune_receipts(connection: DedicatedConnection, days: int) -> int:
    """Delete receipts older than `days`; return how many."""
    return await _all_of(connection, _RECEIPTS, days)


async def prune_audit(connection: DedicatedConnection, days: int) -> int:
    """Delete audit entries older than `days`; return how many."""
    return await _all_of(connection, _AUDIT, days)


async def prune_operations(
    connection: DedicatedConnection, agents: Sequence[str], days: int
) -> int:
    """Delete the stored answers of call ids older than `days`; return how many."""
    tags = [await connection.execute(qualified(_OPERATIONS, agent), days) for agent in agents]
    return sum(map(_count, tags))


async def prune_space_changes(connection: DedicatedConnection) -> int:
    """Delete the changes of spaces that were seen an hour ago; return how many."""
    await connection.execute(_SEE_CHANGES)
    return _count(await connection.execute(_CHANGES, CHANGES_KEPT_S))


async def next_agents(connection: DedicatedConnection, after: str, limit: int) -> list[str]:
    """Return the next agents in the order of their ids."""
    return [row["agent_id"] for row in await connection.fetch(_AGENTS, after, limit)]


async def _all_of(connection: DedicatedConnection, statement: str, days: int) -> int:
    total = 0
    while deleted := _count(await connection.execute(statement, days, BATCH_SIZE)):
        total += deleted
    return total


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])

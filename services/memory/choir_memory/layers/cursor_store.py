"""Progress of a derivation for an agent: `position` in `choir_memory.cursors`.

Called by `extraction` under the service's role. The row exists because `Leases` created it.
"""

import orjson

from choir_common.postgres.pool import Connection, Database

_READ = """
SELECT position::text FROM choir_memory.cursors WHERE agent_id = $1 AND name = $2 AND position <> '{}'
"""
_MOVE = "UPDATE choir_memory.cursors SET position = $3::jsonb WHERE agent_id = $1 AND name = $2"


async def read_cursor(database: Database, agent_id: str, name: str) -> dict[str, object] | None:
    """Return the position, or None at the beginning."""
    found = await database.fetchval(_READ, agent_id, name)
    return None if found is None else dict(orjson.loads(found))


async def move_cursor(
    held: Connection, agent_id: str, name: str, position: dict[str, object]
) -> None:
    """Store the position, in the transaction that stores the results up to it."""
    await held.execute(_MOVE, agent_id, name, orjson.dumps(position).decode())

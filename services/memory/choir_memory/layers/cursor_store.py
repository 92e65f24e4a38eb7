"""How far a derivation has come with an agent: `position` in `choir_memory.cursors`.

Called by `extraction` as the service itself; the row is there as long as its lease is held.
"""

import orjson

from choir_common.postgres.pool import Connection, Database

_READ = """
SELECT position::text FROM choir_memory.cursors WHERE agent_id = $1 AND name = $2 AND position <> '{}'
"""
_MOVE = "UPDATE choir_memory.cursors SET position = $3::jsonb WHERE agent_id = $1 AND name = $2"


async def read_cursor(database: Database, agent_id: str, name: str) -> dict[str, object] | None:
    """Return the position; none at the beginning."""
    found = await database.fetchval(_READ, agent_id, name)
    return None if found is None else dict(orjson.loads(found))


async def move_cursor(
    held: Connection, agent_id: str, name: str, position: dict[str, object]
) -> None:
    """Note how far it has come, in the transaction of what it gave."""
    await held.execute(_MOVE, agent_id, name, orjson.dumps(position).decode())

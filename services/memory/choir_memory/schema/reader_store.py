"""The people whose memory is kept apart, as control sent them last: the column `readers` of `spaces`.

Requires the service's role. What is made of several conversations follows them: facts and time summaries.
"""

from collections.abc import Sequence

import orjson
from pydantic import TypeAdapter

from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_search import MemoryReader

_READERS: TypeAdapter[tuple[MemoryReader, ...]] = TypeAdapter(tuple[MemoryReader, ...])
_WRITE = """
UPDATE choir_memory.spaces SET readers = $2::jsonb WHERE agent_id = $1 AND readers <> $2::jsonb
"""
_READ = "SELECT readers::text FROM choir_memory.spaces WHERE agent_id = $1"


async def write_readers(
    connection: Connection, agent_id: str, readers: Sequence[MemoryReader]
) -> None:
    """Store the readers of an agent's memory; none: everything is shared."""
    rendered = orjson.dumps([reader.model_dump(mode="json") for reader in readers]).decode()
    await connection.execute(_WRITE, agent_id, rendered)


async def read_readers(database: Database, agent_id: str) -> tuple[MemoryReader, ...]:
    """Return the readers of an agent's memory; none: everything is shared."""
    rendered = await database.fetchval(_READ, agent_id)
    return () if rendered is None else _READERS.validate_json(rendered)

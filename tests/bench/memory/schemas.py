"""Cost of an agent's empty memory schema in time, disk space and service memory."""

import asyncio
import time

from choir_common.wire.memory_search import EnsureSpace, MemoryQuery
from tests.bench.memory.environment import CONNECTIONS, BenchEnvironment
from tests.bench.memory.figures import SchemaFigures, p50_and_p99

_SIZE = "SELECT pg_database_size(current_database())"
_CATALOG = """
SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'
"""
_RELATIONS = "SELECT count(*) FROM pg_class"
LAST = 100


async def measure_schemas(stage: BenchEnvironment, count: int) -> SchemaFigures:
    """Create `count` agents' schemas one after the other, search in each, then restart the service."""
    before, effort = await _standing(stage), stage.efforts()
    taken = []
    for number in range(count):
        start = time.perf_counter()
        await stage.client.ensure(EnsureSpace(agent_id=f"e{number}"))
        taken.append(time.perf_counter() - start)
    service, postgres, _ = stage.efforts().each_ms(effort, count)
    after = await _standing(stage)
    size, catalog, relations = ((b - a) / count for a, b in zip(before, after, strict=True))
    await _touch(stage, count)
    heaviest = max(await stage.connections_mb())
    start = time.perf_counter()
    await stage.memory.kill()
    await stage.memory.start()
    return SchemaFigures(
        count,
        *p50_and_p99(taken),
        p50_and_p99(taken[-LAST:])[0],
        round(service + postgres, 2),
        round(size / 1024, 1),
        round(catalog / 1024, 1),
        round(relations, 1),
        heaviest,
        round(time.perf_counter() - start, 1),
    )


async def _standing(stage: BenchEnvironment) -> list[int]:
    return [await stage.admin.fetchval(sql) for sql in (_SIZE, _CATALOG, _RELATIONS)]


async def _touch(stage: BenchEnvironment, count: int) -> None:
    numbers = iter(range(count))

    async def search() -> None:
        for number in numbers:
            await stage.client.query(
                MemoryQuery(agent_id=f"e{number}", store="session", query=f"w{number}x")
            )

    await asyncio.gather(*(search() for _ in range(CONNECTIONS)))

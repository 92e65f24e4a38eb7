"""Writes through the service and into plain pgvector: many documents, then one at a time."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

import asyncpg

from choir_common.clients.memory import NatsSessionMemoryClient
from choir_common.wire.memory_search import EnsureSpace, MemoryUpsert
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit
from choir_memory.embedding.embedder import to_halfvec
from tests.bench.memory.corpus import DIMENSIONS, Corpus
from tests.bench.memory.environment import BenchEnvironment
from tests.bench.memory.figures import IngestFigures, p50_and_p99

WRITERS = 4
UNITS = 64
"""Units per call, as from a session of typical length."""
BLOCK_DOCUMENTS = WRITERS * UNITS * 3
"""Documents in one of the alternating blocks."""
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SINGLE_WRITES = 200
NAMES = UUID("5d6e7f80-0000-4000-8000-000000000001")

# the baseline without Choir: a table with a vector index, with pgvector's default settings
_PLAIN = f"""
CREATE TABLE plain_documents (
    id uuid PRIMARY KEY, text text NOT NULL, embedding public.halfvec({DIMENSIONS}) NOT NULL);
CREATE INDEX ON plain_documents USING hnsw (embedding public.halfvec_cosine_ops)
"""
_PUT = """
INSERT INTO plain_documents SELECT id, text, vector
FROM unnest($1::uuid[], $2::text[], $3::public.halfvec[]) AS given (id, text, vector)
"""

Write = Callable[[int, Sequence[str]], Awaitable[object]]
"""Writes texts; the first argument is the number of the first text, from which their ids are derived."""


async def measure_ingest(stage: BenchEnvironment, count: int) -> IngestFigures:
    """Record `count` session units and wait for their vectors; then write single notes."""
    documents = [one.text for one in Corpus().documents(count + SINGLE_WRITES, 99)]
    await stage.client.ensure(EnsureSpace(agent_id="writer"))
    await stage.admin.execute(f"DROP TABLE IF EXISTS plain_documents; {_PLAIN}")
    sessions = NatsSessionMemoryClient(stage.memory.bus)

    async def record(first: int, texts: Sequence[str]) -> None:
        units = tuple(
            SessionUnit(id=str(at), text=text, at=NOON, position=at)
            for at, text in enumerate(texts)
        )
        asked = RecordUnits(agent_id="writer", session_id=f"ses_{first}", units=units)
        await sessions.record(asked)

    acknowledged = complete = plain = 0.0
    async with stage.floor_pool() as pool:
        for first in range(0, count, BLOCK_DOCUMENTS):
            block = documents[first : min(first + BLOCK_DOCUMENTS, count)]
            start = time.perf_counter()
            await _in_calls(record, first, block)
            acknowledged += time.perf_counter() - start
            await _until_embedded(stage)
            complete += time.perf_counter() - start
            start = time.perf_counter()
            await _in_calls(lambda at, texts: _plain(stage, pool, at, texts), first, block)
            plain += time.perf_counter() - start
        alone, plain_alone = await _measure_single_writes(stage, pool, documents[count:])
    return IngestFigures(
        count,
        round(count / complete),
        round(count / acknowledged),
        *p50_and_p99(alone),
        round(count / plain),
        *p50_and_p99(plain_alone),
    )


async def _measure_single_writes(
    stage: BenchEnvironment, pool: "asyncpg.Pool[Any]", texts: Sequence[str]
) -> tuple[list[float], list[float]]:
    numbers, alone, plain = itertools.count(1_000_000), list[float](), list[float]()
    for text in texts:
        number = next(numbers)
        write = MemoryUpsert(
            agent_id="writer", call_id=f"call-{number}", operation="insert", text=text
        )
        start = time.perf_counter()
        await stage.client.upsert(write)
        alone.append(time.perf_counter() - start)
        await _until_embedded(stage)
        start = time.perf_counter()
        await _plain(stage, pool, number, [text])
        plain.append(time.perf_counter() - start)
    return alone, plain


async def _plain(
    stage: BenchEnvironment, pool: "asyncpg.Pool[Any]", first: int, texts: Sequence[str]
) -> None:
    vectors = [to_halfvec(one) for one in await stage.embedder.embed(texts)]
    ids = [uuid5(NAMES, str(first + at)) for at in range(len(texts))]
    await pool.execute(_PUT, ids, list(texts), vectors)


async def _in_calls(write: Write, first: int, texts: Sequence[str]) -> None:
    work = iter(range(0, len(texts), UNITS))

    async def writer(work: Iterator[int]) -> None:
        for at in work:
            await write(first + at, texts[at : at + UNITS])

    await asyncio.gather(*(writer(work) for _ in range(WRITERS)))


async def _until_embedded(stage: BenchEnvironment) -> None:
    while (await stage.client.status()).queued:
        await asyncio.sleep(0.01)

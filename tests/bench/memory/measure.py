"""The measurements; each takes a running stage and returns its figures."""

import asyncio
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from choir_common.clients.memory_sessions import BusSessionMemory
from choir_common.wire.memories import EnsureSpace, MemoryQuery, MemoryUpsert
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit
from choir_memory.embedding.port import render
from tests.bench.memory.corpus import DIMENSIONS, Corpus, Text
from tests.bench.memory.figures import (
    CrowdFigures,
    IngestFigures,
    SchemaFigures,
    SpaceFigures,
    p50_and_p99,
)
from tests.bench.memory.load import fill
from tests.bench.memory.recall import recall_at_10
from tests.bench.memory.stage import Stage

AT_ONCE = 50
WRITERS = 4
UNITS = 64
"""A call, as many as a session of some length brings."""
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ALONE = 200
CROWDED = 1_000
"""Documents of each space in the crowd."""
INDEX_WAIT_S = 1_800
INDEXED_FROM = 5_000
"""As the service is set by default."""

_FLOOR = """
SELECT document_id FROM {schema}.memory_embeddings
ORDER BY embedding::public.halfvec({dimensions}) <=> $1::text::public.halfvec LIMIT 10
"""
_SIZES = """
SELECT pg_total_relation_size('{schema}.memory_embeddings') AS vectors_all,
       pg_table_size('{schema}.memory_embeddings') AS vectors,
       pg_relation_size('{schema}.memory_documents_tsv') AS text_index,
       pg_total_relation_size('{schema}.memory_documents') AS documents
"""
_INDEXED = """
SELECT coalesce(bool_or(indisvalid), false) FROM pg_index
WHERE indrelid = '{schema}.memory_embeddings'::regclass AND indexprs IS NOT NULL
"""


async def measure_schemas(stage: Stage, count: int) -> SchemaFigures:
    """Make `count` agents' spaces one after the other, then search in each."""
    before = await stage.admin.fetchval("SELECT pg_database_size(current_database())")
    taken = []
    for number in range(count):
        start = time.perf_counter()
        await stage.client.ensure(EnsureSpace(agent_id=f"e{number}"))
        taken.append(time.perf_counter() - start)
    after = await stage.admin.fetchval("SELECT pg_database_size(current_database())")
    numbers = iter(range(count))

    async def touch() -> None:
        for number in numbers:
            await stage.client.query(
                MemoryQuery(agent_id=f"e{number}", store="session", query=f"w{number}x")
            )

    await asyncio.gather(*(touch() for _ in range(8)))
    p50, p99 = p50_and_p99(taken)
    heaviest = max(await stage.connections_mb())
    return SchemaFigures(count, p50, p99, round((after - before) / count / 1024, 1), heaviest)


async def measure_ingest(stage: Stage, count: int) -> IngestFigures:
    """Record `count` units of sessions, and wait for their vectors; then one note at a time."""
    documents = [one.text for one in Corpus().documents(count + ALONE, 99)]
    await stage.client.ensure(EnsureSpace(agent_id="writer"))
    numbers = itertools.count()

    async def write(text: str) -> None:
        await stage.client.upsert(
            MemoryUpsert(
                agent_id="writer",
                call_id=f"call-{next(numbers)}",
                operation="insert",
                text=text,
            )
        )

    sessions = BusSessionMemory(stage.memory.bus)
    work = iter(range(0, count, UNITS))

    async def writer() -> None:
        for first in work:
            units = tuple(
                SessionUnit(id=str(at), text=text, at=NOON, position=at)
                for at, text in enumerate(documents[first : min(first + UNITS, count)])
            )
            await sessions.record(
                RecordUnits(agent_id="writer", session_id=f"ses_{first}", units=units)
            )

    start = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(WRITERS)))
    acknowledged = time.perf_counter() - start
    while (await stage.client.status()).queued:
        await asyncio.sleep(0.02)
    complete = time.perf_counter() - start
    alone = []
    for text in documents[count:]:
        begin = time.perf_counter()
        await write(text)
        alone.append(time.perf_counter() - begin)
    p50, p99 = p50_and_p99(alone)
    return IngestFigures(count, round(count / complete), round(count / acknowledged), p50, p99)


async def measure_space(stage: Stage, size: int, questions: int) -> SpaceFigures:
    """Fill a space, wait for its index if it is to have one, and search in it beside the floor."""
    agent, corpus = f"space_{size}", Corpus()
    await stage.client.ensure(EnsureSpace(agent_id=agent))
    documents = await fill(stage.admin, agent, corpus, size)
    index_s = await _until_indexed(stage, agent, size)
    asked = corpus.questions(documents, questions + 20, size)
    for question in asked[:20]:
        await _search(stage, agent, question)
        await _floor(stage, agent, question)
    choir, floor, found = [], [], 0
    for question in asked[20:]:
        start = time.perf_counter()
        texts = await _search(stage, agent, question)
        middle = time.perf_counter()
        await _floor(stage, agent, question)
        choir.append(middle - start)
        floor.append(time.perf_counter() - middle)
        found += any(set(question.words[:6]) <= set(_words(text)) for text in texts)
    recall = await recall_at_10(stage, agent, asked[:100])
    sizes = await stage.admin.fetchrow(_SIZES.format(schema=f"choir_{agent}"))
    assert sizes is not None
    choir_ms, floor_ms = p50_and_p99(choir), p50_and_p99(floor)
    return SpaceFigures(
        size,
        *choir_ms,
        *floor_ms,
        recall,
        round(found / questions, 3),
        index_s,
        round(sizes["vectors"] / size / 1024, 2),
        round((sizes["vectors_all"] - sizes["vectors"]) / size / 1024, 2),
        round(sizes["text_index"] / size / 1024, 2),
        round((sizes["vectors_all"] + sizes["documents"]) / size / 1024, 2),
    )


async def measure_crowd(stage: Stage, agents: int, searches: int) -> CrowdFigures:
    """Search in `agents` spaces, `AT_ONCE` at a time."""
    corpus, asked = Corpus(), list[tuple[str, Text]]()
    for number in range(agents):
        agent = f"crowd_{number}"
        await stage.client.ensure(EnsureSpace(agent_id=agent))
        documents = await fill(stage.admin, agent, corpus, CROWDED)
        each = -(-searches // agents)
        asked += [(agent, one) for one in corpus.questions(documents, each, number)]
    random.Random(5).shuffle(asked)
    taken: list[float] = []

    async def ask(work: Iterator[tuple[str, Text]]) -> None:
        for agent, question in work:
            start = time.perf_counter()
            await _search(stage, agent, question)
            taken.append(time.perf_counter() - start)

    async def crowd(chosen: Sequence[tuple[str, Text]]) -> float:
        work = iter(chosen)
        start = time.perf_counter()
        await asyncio.gather(*(ask(work) for _ in range(AT_ONCE)))
        return time.perf_counter() - start

    await crowd(asked[: len(asked) // 5])
    taken.clear()
    seconds = await crowd(asked)
    p50, p99 = p50_and_p99(taken)
    return CrowdFigures(agents, AT_ONCE, round(len(asked) / seconds), p50, p99)


async def _search(stage: Stage, agent: str, question: Text) -> list[str]:
    query = MemoryQuery(agent_id=agent, store="session", query=question.text, limit=10)
    answer = await stage.client.query(query)
    assert answer.degraded is None, answer.degraded
    return [hit.text for hit in answer.hits]


async def _floor(stage: Stage, agent: str, question: Text) -> None:
    vector = render((await stage.embedder.embed([question.text]))[0])
    sql = _FLOOR.format(schema=f"choir_{agent}", dimensions=DIMENSIONS)
    await stage.admin.fetch(sql, vector)


async def _until_indexed(stage: Stage, agent: str, size: int) -> float:
    """Wait for the service's own upkeep to make the index; return how long that took."""
    if size < INDEXED_FROM:
        return 0.0
    start = time.perf_counter()
    async with asyncio.timeout(INDEX_WAIT_S):
        while not await stage.admin.fetchval(_INDEXED.format(schema=f"choir_{agent}")):
            await asyncio.sleep(0.5)
    return round(time.perf_counter() - start, 1)


def _words(text: str) -> list[int]:
    return [int(word[1:-1]) for word in text.split()]

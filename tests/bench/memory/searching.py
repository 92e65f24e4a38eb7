"""Searches through the service or in plain pgvector, one at a time or many at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import asyncpg

from choir_common.wire.memory_search import MemoryQuery
from choir_memory.embedding.embedder import to_halfvec
from tests.bench.memory.corpus import DIMENSIONS, WordSequence
from tests.bench.memory.environment import BenchEnvironment
from tests.bench.memory.figures import ConcurrentFigures, p50_and_p99

AT_ONCE = 50
PATIENT_MS = 9_000
BLOCKS = 4
"""Alternating blocks of concurrent searches for the service and the baseline."""

# the subquery makes Postgres convert the question's vector once, and not for each row
FLOOR = """
SELECT document_id FROM {schema}.memory_embeddings WHERE model = 1
ORDER BY embedding::public.halfvec({dimensions}) <=> (SELECT $1::public.halfvec({dimensions})) LIMIT 10
"""

AgentQuestion = tuple[str, WordSequence]
"""An agent and a question."""
SearchFunction = Callable[[AgentQuestion], Awaitable[object]]


async def search(stage: BenchEnvironment, asked: AgentQuestion) -> list[str]:
    """Search through the service, with embedding, both arms and receipt; return the texts of the hits."""
    agent, question = asked
    query = MemoryQuery(
        agent_id=agent, store="session", query=question.text, limit=10, deadline_ms=PATIENT_MS
    )
    answer = await stage.client.query(query)
    # a search that skipped an arm would count as fast
    assert answer.degraded is None, answer.degraded
    assert not set(answer.cut) - {"receipt"}, answer.cut
    return [hit.text for hit in answer.hits]


async def search_baseline(
    stage: BenchEnvironment,
    held: "asyncpg.Pool[Any] | asyncpg.Connection[Any]",
    asked: AgentQuestion,
) -> None:
    """Query pgvector for ten ids, after the same embedding call for the question."""
    agent, question = asked
    vector = to_halfvec((await stage.embedder.embed([question.text]))[0])
    await held.fetch(FLOOR.format(schema=f"choir_{agent}", dimensions=DIMENSIONS), vector)


async def search_concurrently(
    stage: BenchEnvironment, questions: Sequence[AgentQuestion], agents: int, documents: int
) -> ConcurrentFigures:
    """Run all searches with `BATCH_SIZE` concurrent ones, alternating between service and baseline."""
    taken, floor_taken = list[float](), list[float]()
    spent = floor_spent = 0.0
    async with stage.floor_pool() as pool:
        await _block(lambda one: search(stage, one), questions[: len(questions) // 5], [])
        await _block(
            lambda one: search_baseline(stage, pool, one), questions[: len(questions) // 5], []
        )
        for at in range(BLOCKS):
            block = questions[at::BLOCKS]
            spent += await _block(lambda one: search(stage, one), block, taken)
            floor_spent += await _block(
                lambda one: search_baseline(stage, pool, one), block, floor_taken
            )
    count = len(questions)
    floor_ms = p50_and_p99(floor_taken)
    return ConcurrentFigures(
        agents,
        documents,
        AT_ONCE,
        round(count / spent),
        *p50_and_p99(taken),
        round(count / floor_spent),
        *floor_ms,
    )


async def _block(
    ask: SearchFunction, questions: Sequence[AgentQuestion], taken: list[float]
) -> float:
    work = iter(questions)

    async def one_after_another(work: Iterator[AgentQuestion]) -> None:
        for asked in work:
            start = time.perf_counter()
            await ask(asked)
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(one_after_another(work) for _ in range(AT_ONCE)))
    return time.perf_counter() - start

"""Search, recall and disk space for one agent with many documents."""

import asyncio
import time

from choir_common.wire.memory_search import EnsureSpace
from tests.bench.memory.corpus import Corpus
from tests.bench.memory.environment import BenchEnvironment
from tests.bench.memory.figures import SpaceFigures, p50_and_p99
from tests.bench.memory.load import load_documents
from tests.bench.memory.recall import recall_at_10
from tests.bench.memory.searching import search, search_baseline, search_concurrently

WARM = 20
RECALL_QUESTIONS = 100
INDEX_WAIT_S = 6 * 3_600
INDEXED_FROM = 5_000
"""The service's default threshold for building a vector index."""

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


async def measure_space(stage: BenchEnvironment, size: int, questions: int) -> SpaceFigures:
    """Fill a memory, wait for its index if it gets one, and search in it and with the baseline."""
    agent, corpus = f"space_{size}", Corpus()
    await stage.client.ensure(EnsureSpace(agent_id=agent))
    documents = await load_documents(stage.admin, agent, corpus, size)
    index_s = await _until_indexed(stage, agent, size)
    asked = [(agent, one) for one in corpus.questions(documents, questions + WARM, size)]
    for one in asked[:WARM]:
        await search(stage, one)
        await search_baseline(stage, stage.admin, one)
    choir, floor, found, effort = [], [], 0, stage.efforts()
    for one in asked[WARM:]:
        start = time.perf_counter()
        texts = await search(stage, one)
        middle = time.perf_counter()
        await search_baseline(stage, stage.admin, one)
        choir.append(middle - start)
        floor.append(time.perf_counter() - middle)
        found += any(set(one[1].words[:6]) <= set(_words(text)) for text in texts)
    cpu_ms = stage.efforts().each_ms(effort, questions)
    at_once = await search_concurrently(stage, asked, 1, size)
    some = [question for _, question in asked[:RECALL_QUESTIONS]]
    recall = await recall_at_10(stage, agent, some)
    sizes = await stage.admin.fetchrow(_SIZES.format(schema=f"choir_{agent}"))
    assert sizes is not None
    floor_ms = p50_and_p99(floor)
    return SpaceFigures(
        size,
        *p50_and_p99(choir),
        *floor_ms,
        *cpu_ms,
        at_once.per_s,
        at_once.p99_ms,
        at_once.floor_per_s,
        *recall,
        round(found / questions, 3),
        index_s,
        round(sizes["vectors"] / size / 1024, 2),
        round((sizes["vectors_all"] - sizes["vectors"]) / size / 1024, 2),
        round(sizes["text_index"] / size / 1024, 2),
        round((sizes["vectors_all"] + sizes["documents"]) / size / 1024, 2),
    )


async def _until_indexed(stage: BenchEnvironment, agent: str, size: int) -> float:
    """Wait until the service's maintenance has built the index; return the seconds it took."""
    if size < INDEXED_FROM:
        return 0.0
    start = time.perf_counter()
    async with asyncio.timeout(INDEX_WAIT_S):
        while not await stage.admin.fetchval(_INDEXED.format(schema=f"choir_{agent}")):
            await asyncio.sleep(0.5)
    return round(time.perf_counter() - start, 1)


def _words(text: str) -> list[int]:
    return [int(word[1:-1]) for word in text.split()]

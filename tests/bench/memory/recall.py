"""Recall of the ten nearest documents, for the service's vector arm and for plain pgvector."""

from collections.abc import Sequence

from choir_common.postgres.pool import Database
from choir_memory.embedding.embedder import QueryVector, VectorTypes, to_halfvec
from choir_memory.schema.store import agent_transaction
from choir_memory.search.corpus_store import CorpusCache
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.vector_arm_store import search_vectors
from tests.bench.memory.corpus import WordSequence
from tests.bench.memory.environment import BenchEnvironment
from tests.bench.memory.searching import FLOOR
from tests.support.postgres import PASSWORD

_EXACT = """
SELECT document_id FROM {schema}.memory_embeddings
ORDER BY (embedding <=> $1::public.halfvec) + 0 LIMIT 10
"""
_MODEL = "SELECT id FROM choir_memory.embedding_models WHERE state = 'active'"


async def recall_at_10(
    stage: BenchEnvironment, agent: str, questions: Sequence[WordSequence]
) -> tuple[float, float]:
    """Return the recall at ten of the vector arm and of plain pgvector, over all questions."""
    hit, plain, corpora = 0, 0, CorpusCache()
    model = await stage.admin.fetchval(_MODEL)
    scope, schema = SearchScope(agent, "session", ("mid_term",)), f"choir_{agent}"
    floor_sql = FLOOR.format(schema=schema, dimensions=stage.embedder.dimensions)
    async with Database(
        stage.dsn, PASSWORD, size=1, application="bench", setup=VectorTypes()
    ) as database:
        for question in questions:
            vector = to_halfvec((await stage.embedder.embed([question.text]))[0])
            asked = QueryVector(model, stage.embedder.dimensions, vector)
            rows = await stage.admin.fetch(_EXACT.format(schema=schema), vector)
            exact = {row["document_id"] for row in rows}
            async with agent_transaction(database, agent) as held:
                corpus = await corpora.of(held, scope)
                named = await search_vectors(held, scope, corpus, asked)
            hit += len(exact & {one.document_id for one in named.hits[:10]})
            rows = await stage.admin.fetch(floor_sql, vector)
            plain += len(exact & {row["document_id"] for row in rows})
    count = 10 * len(questions)
    return round(hit / count, 4), round(plain / count, 4)

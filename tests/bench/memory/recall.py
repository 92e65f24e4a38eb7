"""Recall of the ten nearest documents, for the service's vector arm and for plain pgvector."""

from collections.abc import Sequence

from choir_common.postgres.pool import Database
from choir_memory.embedding.port import QueryVector, render
from choir_memory.schema.store import as_agent
from choir_memory.search.corpora import Corpora
from choir_memory.search.scope_store import Scope
from choir_memory.search.vector_arm_store import vector_arm
from tests.bench.memory.asking import FLOOR
from tests.bench.memory.corpus import Text
from tests.bench.memory.stage import Stage
from tests.support.servers import PASSWORD

_EXACT = """
SELECT document_id FROM {schema}.memory_embeddings
ORDER BY (embedding <=> $1::text::public.halfvec) + 0 LIMIT 10
"""
_MODEL = "SELECT id FROM choir_memory.embedding_models WHERE state = 'active'"


async def recall_at_10(stage: Stage, agent: str, questions: Sequence[Text]) -> tuple[float, float]:
    """Return the recall at ten of the vector arm and of plain pgvector, over all questions."""
    hit, plain, corpora = 0, 0, Corpora()
    model = await stage.admin.fetchval(_MODEL)
    scope, schema = Scope(agent, "session", ("mid_term",)), f"choir_{agent}"
    floor_sql = FLOOR.format(schema=schema, dimensions=stage.embedder.dimensions)
    async with Database(stage.dsn, PASSWORD, size=1, application="bench") as database:
        for question in questions:
            vector = render((await stage.embedder.embed([question.text]))[0])
            asked = QueryVector(model, stage.embedder.dimensions, vector)
            rows = await stage.admin.fetch(_EXACT.format(schema=schema), vector)
            exact = {row["document_id"] for row in rows}
            async with as_agent(database, agent) as held:
                corpus = await corpora.of(held, scope)
                named = await vector_arm(held, scope, corpus, asked)
            hit += len(exact & {one.document_id for one in named.hits[:10]})
            rows = await stage.admin.fetch(floor_sql, vector)
            plain += len(exact & {row["document_id"] for row in rows})
    count = 10 * len(questions)
    return round(hit / count, 4), round(plain / count, 4)

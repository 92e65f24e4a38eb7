"""Bulk loading of an agent's memory with COPY, in the form that the service itself writes.

A million documents through the service would take half an hour; the speed of that path is measured
separately. All documents are dated today, because the service would start to summarize older ones during the
measurement.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

import asyncpg
import numpy as np
from pgvector.asyncpg import register_vector

from choir_memory.maintenance.database_upkeep import ADVISORY_LOCK_KEY
from choir_memory.text.tokens import document_tokens, tsvector
from tests.bench.memory.corpus import DIMENSIONS, Corpus, WordSequence

NAMES = UUID("5d6e7f80-0000-4000-8000-000000000000")
CHUNK = 5_000
TURNS = 50
"""Documents per session."""


async def load_documents(
    held: "asyncpg.Connection[Any]", agent_id: str, corpus: Corpus, count: int
) -> list[WordSequence]:
    """Store `count` documents, skipping those that exist already; return the first ten thousand."""
    await held.set_type_codec(
        "halfvec", schema="public", encoder=bytes, decoder=bytes, format="binary"
    )
    # documents go through an INSERT: the binary form of tsvector is hard to write
    model = await held.fetchval(
        "SELECT id FROM choir_memory.embedding_models WHERE state = 'active'"
    )
    schema, kept = f"choir_{agent_id}", list[WordSequence]()
    there = await held.fetchval(f'SELECT count(*) FROM "{schema}".memory_documents')
    documents = corpus.documents(count, _seed(agent_id))
    # this lock stops maintenance, which would build an index over a part of the data
    await held.execute("SELECT pg_advisory_lock($1)", ADVISORY_LOCK_KEY)
    for start in range(0, count, CHUNK):
        chunk = list(islice(documents, CHUNK))
        if len(kept) < 10_000:
            kept += chunk
        if start < there:
            continue
        ids = [uuid5(NAMES, f"{agent_id}/{start + at}") for at in range(len(chunk))]
        async with held.transaction():
            await _documents(held, schema, start, ids, chunk)
            await held.copy_records_to_table(
                "memory_embeddings",
                schema_name=schema,
                columns=["document_id", "model", "part", "embedding"],
                records=_vectors(ids, model, corpus, chunk),
            )
    if there < count:
        await held.execute(f'ANALYZE "{schema}".memory_documents, "{schema}".memory_embeddings')
    await held.execute("SELECT pg_advisory_unlock($1)", ADVISORY_LOCK_KEY)
    # instead of the codec above, which only COPY needs
    await register_vector(held)
    return kept


async def _documents(
    held: "asyncpg.Connection[Any]",
    schema: str,
    start: int,
    ids: Sequence[UUID],
    chunk: Sequence[WordSequence],
) -> None:
    texts = [one.text for one in chunk]
    tokens = [[_token(word) for word in one.words] for one in chunk]
    places = range(start, start + len(chunk))
    await held.execute(
        f'INSERT INTO "{schema}".memory_documents (id, session_id, tier, chunk_index, text, tsv, tokens, '
        "speaker, happened_at) SELECT id, session, 'mid_term', place, text, tsv::tsvector, tokens, 'user', "
        "date_trunc('day', now()) + place * interval '1 ms' FROM unnest($1::uuid[], $2::text[], "
        "$3::int[], $4::text[], $5::text[], $6::int[]) AS made (id, session, place, text, tsv, tokens)",
        list(ids),
        [f"ses_{place // TURNS}" for place in places],
        list(places),
        texts,
        [tsvector(each) for each in tokens],
        [len(each) for each in tokens],
    )


@cache
def _token(word: int) -> str:
    (token,) = document_tokens(WordSequence((word,)).text)
    return token


def _vectors(
    ids: Sequence[UUID], model: int, corpus: Corpus, chunk: Sequence[WordSequence]
) -> Iterator[tuple[UUID, int, int, bytes]]:
    head = DIMENSIONS.to_bytes(2, "big") + b"\0\0"
    halves = corpus.vectors(chunk).astype(np.dtype(">f2"))
    for document_id, half in zip(ids, halves, strict=True):
        yield document_id, model, 0, head + half.tobytes()


def _seed(agent_id: str) -> int:
    return int.from_bytes(agent_id.encode()[-6:], "big")

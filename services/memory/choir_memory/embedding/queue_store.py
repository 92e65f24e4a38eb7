"""The embedding queue and the vectors in Postgres.

A document is queued in the transaction that writes it, under the service's role. A job is claimed by a row
lock: a crashed worker releases it at once, and several workers share the queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from pgvector import HalfVector

from choir_common.postgres.pool import Connection, Database
from choir_memory.schema.store import qualified

Store = Literal["session", "knowledge"]

# One job for each model that serves or is being built.
_ENQUEUE = """
INSERT INTO choir_memory.embedding_queue (agent_id, store, document_id, model, due_at)
SELECT $1, $2, wanted.id, m.id, CASE WHEN $4::boolean THEN clock_timestamp() END
FROM unnest($3::uuid[]) WITH ORDINALITY AS wanted (id, place), choir_memory.embedding_models m
WHERE m.state <> 'retired' ORDER BY wanted.place
"""
# rows locked by a worker are skipped, otherwise the two could deadlock
_WITHDRAW = """
DELETE FROM choir_memory.embedding_queue WHERE id IN (
    SELECT id FROM choir_memory.embedding_queue
    WHERE agent_id = $1 AND document_id = ANY($2::uuid[]) FOR UPDATE SKIP LOCKED)
"""
_CLAIM_NEW = """
SELECT id, agent_id, store, document_id, tries FROM choir_memory.embedding_queue
WHERE model = $1 AND due_at IS NULL ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
"""
# Also due: a job further in the future than the longest possible delay, because the database clock was
# set back.
_CLAIM_LATE = """
SELECT id, agent_id, store, document_id, tries FROM choir_memory.embedding_queue
WHERE model = $1 AND due_at IS NOT NULL AND (
    due_at <= clock_timestamp() OR due_at > clock_timestamp() + make_interval(secs => $3))
ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
_READ = """
SELECT d.id, d.version, d.text, {is_message} AS is_message FROM {documents} d
WHERE d.id = ANY($1::uuid[]) AND {embeddable}
"""
# Expired documents are about to be deleted; `keep_vectors` is false after `retention.vectors` applied.
_EMBEDDABLE = "(d.expires_at IS NULL OR d.expires_at > now())"
_EMBEDDABLE_IN_SESSION = f"d.keep_vectors AND {_EMBEDDABLE}"
# FOR SHARE: text and `keep_vectors` cannot change between this comparison and the commit
_STORE = """
INSERT INTO {embeddings} (document_id, model, part, embedding)
SELECT d.id, m.id, made.part, made.vector
FROM unnest($2::uuid[], $3::int[], $4::smallint[], $5::halfvec[])
    AS made (document_id, version, part, vector)
JOIN {documents} d ON d.id = made.document_id AND d.version = made.version AND {embeddable}
JOIN choir_memory.embedding_models m ON m.id = $1 AND m.state <> 'retired'
FOR SHARE OF d
ON CONFLICT (document_id, model, part) DO UPDATE SET embedding = excluded.embedding
"""
_FINISH = "DELETE FROM choir_memory.embedding_queue WHERE id = ANY($1::bigint[])"
_POSTPONE = """
UPDATE choir_memory.embedding_queue q
SET tries = q.tries + 1, last_error = late.error, refused = late.refused,
    due_at = clock_timestamp() + make_interval(secs => late.wait_s)
FROM unnest($1::bigint[], $2::float8[], $3::text[], $4::boolean[])
    AS late (id, wait_s, error, refused)
WHERE q.id = late.id
"""
# A bulk that was never tried remains behind all others.
_RELEASE = """
UPDATE choir_memory.embedding_queue SET due_at = NULL
WHERE id IN (SELECT id FROM choir_memory.embedding_queue
             WHERE model = $1 AND due_at IS NOT NULL AND tries > 0 AND NOT refused
             FOR UPDATE SKIP LOCKED)
"""
# Jobs of the active model only: documents that vector search cannot find yet.
_COUNT = """
SELECT count(*) FILTER (WHERE q.tries <= $1) AS queued, count(*) FILTER (WHERE q.tries > $1) AS failed
FROM choir_memory.embedding_queue q
JOIN choir_memory.embedding_models m ON m.id = q.model AND m.state = 'active'
"""


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """A claimed row; a document that was changed twice has two."""

    job_id: int
    agent_id: str
    store: Store
    document_id: UUID
    tries: int


@dataclass(frozen=True, slots=True)
class QueuedDocument:
    """A document's text at the time its jobs were claimed."""

    agent_id: str
    store: Store
    document_id: UUID
    version: int
    text: str
    is_message: bool
    """Whether a user said it."""


@dataclass(frozen=True, slots=True)
class EmbeddedDocument:
    """A document's vectors by the number of their part: passages from 0, sentences from
    `FIRST_SENTENCE_PART`."""

    document: QueuedDocument
    vectors: Mapping[int, HalfVector]


@dataclass(frozen=True, slots=True)
class PostponedJob:
    """A job to retry after `wait_s` seconds; `refused` if its text was rejected."""

    job_id: int
    wait_s: float
    error: str
    refused: bool


async def enqueue(connection: Connection, agent_id: str, store: Store, document_id: UUID) -> None:
    """Queue a document for embedding, if this transaction commits."""
    await connection.execute(_ENQUEUE, agent_id, store, [document_id], False)


async def enqueue_all(
    connection: Connection,
    agent_id: str,
    store: Store,
    document_ids: Sequence[UUID],
    *,
    is_bulk: bool = False,
) -> None:
    """Queue documents for embedding, if this transaction commits; a bulk comes after all others."""
    if document_ids:
        await connection.execute(_ENQUEUE, agent_id, store, list(document_ids), is_bulk)


async def dequeue(connection: Connection, agent_id: str, document_ids: Sequence[UUID]) -> None:
    """Remove these documents from the queue."""
    if document_ids:
        await connection.execute(_WITHDRAW, agent_id, list(document_ids))


async def claim_jobs(
    connection: Connection, model: int, limit: int, longest_wait_s: float
) -> list[EmbeddingJob]:
    """Lock up to `limit` due jobs that no other worker has, until the transaction ends.

    New jobs come first. `longest_wait_s` is the upper limit of all delays.
    """
    rows = await connection.fetch(_CLAIM_NEW, model, limit)
    if len(rows) < limit:
        rows += await connection.fetch(_CLAIM_LATE, model, limit - len(rows), longest_wait_s)
    return [
        EmbeddingJob(r["id"], r["agent_id"], r["store"], r["document_id"], r["tries"]) for r in rows
    ]


async def read_documents(
    connection: Connection, jobs: Sequence[EmbeddingJob]
) -> list[QueuedDocument]:
    """Return the documents of `jobs` that still exist and should have vectors, each once."""
    ids_by_store: dict[tuple[str, Store], set[UUID]] = {}
    for job in jobs:
        ids_by_store.setdefault((job.agent_id, job.store), set()).add(job.document_id)
    documents: list[QueuedDocument] = []
    for (agent_id, store), ids in ids_by_store.items():
        rows = await connection.fetch(with_table_names(_READ, agent_id, store), list(ids))
        documents += (
            QueuedDocument(agent_id, store, r["id"], r["version"], r["text"], r["is_message"])
            for r in rows
        )
    return documents


async def store_vectors(
    connection: Connection, model: int, documents: Sequence[EmbeddedDocument]
) -> None:
    """Store vectors, except for documents that have changed since their text was read."""
    spaces: dict[tuple[str, Store], list[EmbeddedDocument]] = {}
    for document in documents:
        spaces.setdefault((document.document.agent_id, document.document.store), []).append(
            document
        )
    for (agent_id, store), group in spaces.items():
        rows = [
            (item.document.document_id, item.document.version, part, vector)
            for item in group
            for part, vector in item.vectors.items()
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        await connection.execute(with_table_names(_STORE, agent_id, store), model, *columns)


async def delete_jobs(connection: Connection, job_ids: Sequence[int]) -> None:
    """Delete jobs that are done, or that refer to a deleted document."""
    if job_ids:
        await connection.execute(_FINISH, list(job_ids))


async def postpone_jobs(connection: Connection, jobs: Sequence[PostponedJob]) -> None:
    """Reschedule failed jobs and store the error."""
    if jobs:
        columns = zip(
            *((job.job_id, job.wait_s, job.error, job.refused) for job in jobs), strict=True
        )
        await connection.execute(_POSTPONE, *(list(column) for column in columns))


async def release_jobs(database: Database, model: int) -> None:
    """Make the postponed jobs of a model due now, because its embedder is available again."""
    await database.execute(_RELEASE, model)


async def count_jobs(database: Database, max_tries: int) -> tuple[int, int]:
    """Return how many jobs are pending, and how many have used up their retries."""
    row = await database.fetchrow(_COUNT, max_tries)
    return (row["queued"], row["failed"]) if row else (0, 0)


def with_table_names(statement: str, agent_id: str, store: Store) -> str:
    """Return a statement with the table names of one store of one agent."""
    session = store == "session"
    tables = "memory" if session else "knowledge"
    parts = {
        "{documents}": f"{{schema}}.{tables}_documents",
        "{embeddings}": f"{{schema}}.{tables}_embeddings",
        "{is_message}": "d.kind = 'turn' AND d.origin = 'user'" if session else "false",
        "{embeddable}": _EMBEDDABLE_IN_SESSION if session else _EMBEDDABLE,
    }
    for name, part in parts.items():
        statement = statement.replace(name, part)
    return qualified(statement, agent_id)

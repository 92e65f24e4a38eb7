"""Embedding models in Postgres: the active one, the one being built, and the progress of re-embedding.

The lock on a model's row is the lease of the replica that walks over the documents: taken for one step,
released when its holder crashes.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from choir_common.postgres.pool import Connection, Database
from choir_memory.embedding.queue_store import Store, with_table_names

State = Literal["building", "active", "retired"]

STORES: tuple[Store, ...] = ("session", "knowledge")

# Without a space there are no vectors: the stored models can be replaced freely.
_FORGET = """
DELETE FROM choir_memory.embedding_models WHERE NOT EXISTS (SELECT FROM choir_memory.spaces)
"""
# Writers queue a document for each live model. This lock waits for transactions that started before the
# new model was added; later ones see it. So no document is missed.
_NO_WRITER = "LOCK TABLE choir_memory.embedding_queue IN SHARE MODE"
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(x'4d6f64656c'::bigint)"
_LIVE = """
SELECT id, name, dimensions, state, source FROM choir_memory.embedding_models
WHERE state <> 'retired' ORDER BY state
"""
# the one being built first: the same lock order as the walk
_LOCK_LIVE = f"{_LIVE} DESC FOR UPDATE"
_ADD = """
INSERT INTO choir_memory.embedding_models (name, dimensions, source, state) VALUES ($1, $2, $3, $4)
"""
_SET_SOURCE = "UPDATE choir_memory.embedding_models SET source = $2 WHERE id = $1"
_RETIRE = """
UPDATE choir_memory.embedding_models
SET state = 'retired', changed_at = now(),
    at_agent = '', at_store = NULL, at_document = NULL, walk_done = false, walked = 0
WHERE id = $1
"""
_ACTIVATE = """
UPDATE choir_memory.embedding_models SET state = 'active', changed_at = now() WHERE id = $1
"""
_FORGET_JOBS = """
DELETE FROM choir_memory.embedding_queue q WHERE id IN (
    SELECT id FROM choir_memory.embedding_queue WHERE model = $1 FOR UPDATE SKIP LOCKED)
"""
_PROGRESS = """
SELECT m.id, m.name, m.dimensions, m.documents, m.walked,
       (SELECT count(*) FROM choir_memory.embedding_queue q WHERE q.model = m.id) AS waiting
FROM choir_memory.embedding_models m WHERE m.state = 'building'
"""
_WALK = """
SELECT id, state, documents, at_agent, at_store, at_document, walk_done
FROM choir_memory.embedding_models
WHERE state = 'building'
   OR (state = 'retired' AND NOT walk_done
       AND changed_at <= clock_timestamp() - make_interval(secs => $1))
ORDER BY state LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_MOVE = """
UPDATE choir_memory.embedding_models
SET at_agent = $2, at_store = $3, at_document = $4, walk_done = $5, walked = walked + $6
WHERE id = $1
"""
_SET_DOCUMENTS = "UPDATE choir_memory.embedding_models SET documents = $2 WHERE id = $1"
_NEXT_SPACE = """
SELECT agent_id FROM choir_memory.spaces WHERE agent_id > $1 ORDER BY agent_id LIMIT 1
"""
_COUNT = "SELECT count(*) FROM {documents} d WHERE {embeddable}"
_WAITING = """
SELECT count(*) FROM (
    SELECT FROM choir_memory.embedding_queue WHERE model = $1 AND NOT refused LIMIT $2) AS few
"""
_ACTIVE = "SELECT id FROM choir_memory.embedding_models WHERE state = 'active' FOR UPDATE"
# One page by id. Documents that already have vectors are skipped, so that a restarted walk costs little.
_FEED = """
WITH page AS MATERIALIZED (
    SELECT d.id FROM {documents} d
    WHERE ($2::uuid IS NULL OR d.id > $2) AND {embeddable} ORDER BY d.id LIMIT $3
),
fed AS (
    INSERT INTO choir_memory.embedding_queue (agent_id, store, document_id, model)
    SELECT $4, $5, p.id, $1 FROM page p
    WHERE NOT EXISTS (SELECT FROM {embeddings} e WHERE e.document_id = p.id AND e.model = $1)
)
SELECT count(*) AS documents, (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last FROM page
"""
_DROP = """
WITH page AS MATERIALIZED (
    SELECT d.id FROM {documents} d WHERE $2::uuid IS NULL OR d.id > $2 ORDER BY d.id LIMIT $3
),
gone AS (
    DELETE FROM {embeddings} e USING page p WHERE e.document_id = p.id AND e.model = $1
)
SELECT count(*) AS documents, (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last FROM page
"""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """Row of a model that serves or is being built."""

    model: int
    name: str
    dimensions: int
    state: State
    source: str | None
    """Fingerprint of its provider."""


@dataclass(frozen=True, slots=True)
class ReembeddingProgress:
    """Progress of a new model; `documents` is None until they are counted."""

    name: str
    dimensions: int
    done: int
    documents: int | None


@dataclass(frozen=True, slots=True)
class ReembeddingWalk:
    """A model with an unfinished walk over the documents; its row is locked until the transaction ends."""

    model: int
    state: State
    documents: int | None
    agent_id: str
    store: Store | None
    document_id: UUID | None
    finished: bool


async def register_model(database: Database, name: str, dimensions: int, source: str) -> None:
    """Register the model: as active if there is none, else as being built while the active one serves."""
    async with database.transaction() as connection:
        # replicas may start at the same time
        await connection.execute(_ONE_AT_A_TIME)
        await connection.execute(_FORGET)
        live = await connection.fetch(_LOCK_LIVE)
        model_row = next(
            (r for r in live if (r["name"], r["dimensions"]) == (name, dimensions)), None
        )
        for row in live:
            if row["state"] == "building" and row is not model_row:
                # the configuration was changed again, or changed back, before the build was complete
                await _retire(connection, row["id"])
        if model_row is not None:
            await connection.execute(_SET_SOURCE, model_row["id"], source)
        else:
            await connection.execute(_NO_WRITER)
            await connection.execute(
                _ADD, name, dimensions, source, "building" if live else "active"
            )


async def read_live_models(database: Database) -> list[StoredModel]:
    """Return the active model, then the one being built, if any."""
    rows = await database.fetch(_LIVE)
    return [StoredModel(r["id"], r["name"], r["dimensions"], r["state"], r["source"]) for r in rows]


async def read_progress(database: Database) -> ReembeddingProgress | None:
    """Return the progress of the model being built, or None."""
    row = await database.fetchrow(_PROGRESS)
    if row is None:
        return None
    done = max(row["walked"] - row["waiting"], 0)
    return ReembeddingProgress(
        row["name"],
        row["dimensions"],
        done if row["documents"] is None else min(done, row["documents"]),
        row["documents"],
    )


async def lock_next_walk(connection: Connection, grace_s: float) -> ReembeddingWalk | None:
    """Lock a model that has an unfinished walk and no other walker; a retired one only after `grace_s`."""
    row = await connection.fetchrow(_WALK, grace_s)
    if row is None:
        return None
    return ReembeddingWalk(
        row["id"],
        row["state"],
        row["documents"],
        row["at_agent"],
        row["at_store"],
        row["at_document"],
        row["walk_done"],
    )


async def next_agent(connection: Connection, after: str) -> str | None:
    """Return the next agent with a space, in the order of ids."""
    agent_id = await connection.fetchval(_NEXT_SPACE, after)
    return None if agent_id is None else str(agent_id)


async def count_documents(connection: Connection, agent_id: str) -> int:
    """Return how many documents of an agent have or need vectors."""
    return sum(
        [
            int(await connection.fetchval(with_table_names(_COUNT, agent_id, store)))
            for store in STORES
        ]
    )


async def set_documents(database: Database, model: int, documents: int) -> None:
    """Store the number of documents to embed again."""
    await database.execute(_SET_DOCUMENTS, model, documents)


async def count_pending(connection: Connection, model: int, most: int) -> int:
    """Return how many jobs of this model are pending, at most `most`."""
    return int(await connection.fetchval(_WAITING, model, most))


async def walk_page(connection: Connection, walk: ReembeddingWalk, page: int) -> bool:
    """Queue a page of documents for the model being built, or drop their vectors of a retired one.

    Return whether there may be more documents in this store.
    """
    assert walk.store is not None
    feeding = walk.state == "building"
    more = (walk.agent_id, walk.store) if feeding else ()
    statement = with_table_names(_FEED if feeding else _DROP, walk.agent_id, walk.store)
    row = await connection.fetchrow(statement, walk.model, walk.document_id, page, *more)
    assert row is not None
    last = row["last"] or walk.document_id
    count = row["documents"]
    await connection.execute(_MOVE, walk.model, walk.agent_id, walk.store, last, False, count)
    return bool(count == page)


async def move_walk(
    connection: Connection, walk: ReembeddingWalk, agent_id: str, store: Store | None
) -> None:
    """Move the walk to the beginning of a store; without a store, to the next space."""
    await connection.execute(_MOVE, walk.model, agent_id, store, None, False, 0)


async def finish_walk(connection: Connection, walk: ReembeddingWalk) -> None:
    """Mark a walk as finished."""
    await connection.execute(_MOVE, walk.model, walk.agent_id, None, None, True, 0)
    if walk.state == "retired":
        await connection.execute(_FORGET_JOBS, walk.model)


async def activate_model(connection: Connection, walk: ReembeddingWalk) -> None:
    """Activate the model that was being built, and retire the active one."""
    before = await connection.fetchval(_ACTIVE)
    if before is not None:
        await _retire(connection, before)
    await connection.execute(_ACTIVATE, walk.model)


async def _retire(connection: Connection, model: int) -> None:
    await connection.execute(_RETIRE, model)
    await connection.execute(_FORGET_JOBS, model)

"""Which documents get vectors, when, and what a worker leaves alone."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from choir_common.metrics import Metrics
from choir_memory.embedding.embedder import BATCH_SIZE
from choir_memory.monitoring import EmbeddingMetrics
from tests.service.memory.conftest import Room
from tests.service.memory.lived import remember
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.servers import until

JOBS = "SELECT tries, due_at, due_at - clock_timestamp() AS wait FROM choir_memory.embedding_queue"


async def work(room: Room) -> None:
    while await room.queue.embed_batch():
        pass


async def jobs(room: Room) -> list[Any]:
    return list(await room.database.fetch(JOBS))


async def test_what_expired_and_what_lost_its_vectors_get_no_vector(
    room: Room, provider: ScriptedProvider
) -> None:
    past, future = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))
    await remember(room, "s1", 0, "a turn without vectors", keep_vectors=False)
    await remember(room, "s1", 1, "expired", expires_at=past)
    await remember(room, "s1", 2, "not yet expired", expires_at=future)
    gone = await room.put("knowledge that expired")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET expires_at = $2 WHERE id = $1",
        UUID(gone.document_id),
        past,
    )
    await work(room)
    assert provider.batches == [["not yet expired"]]
    assert await jobs(room) == []


@pytest.mark.parametrize(
    ("change", "vectors"), [("tier = 'long_term_detail'", 1), ("keep_vectors = false", 0)]
)
async def test_a_row_that_is_promoted_while_it_is_embedded_gets_its_vector_unless_it_lost_it(
    room: Room, provider: ScriptedProvider, change: str, vectors: int
) -> None:
    document_id = await remember(room, "s1", 0, "changed meanwhile")
    sql = f"UPDATE choir_main.memory_documents SET {change} WHERE id = $1"

    async def change_row(_: list[str]) -> None:
        await room.database.execute(sql, document_id)

    provider.before_answer = change_row
    await work(room)
    assert provider.batches == [["changed meanwhile"]]
    count = "SELECT count(*) FROM choir_main.memory_embeddings"
    assert await room.database.fetchval(count) == vectors
    assert await jobs(room) == []


async def test_a_provider_that_names_a_time_is_left_alone_until_then(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood, provider.retry_after = "rate_limited", "200"
    for number in range(3 * BATCH_SIZE):
        await room.put(f"note {number}")
    assert not await room.queue.embed_batch()
    assert not await room.queue.embed_batch()
    assert len(provider.batches) == 1, "the rest waits, too"
    waits = [row["wait"].total_seconds() for row in await jobs(room) if row["due_at"]]
    assert len(waits) == BATCH_SIZE
    assert min(waits) > 150


async def test_retries_wait_longer_each_time_and_then_for_the_sweep(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood = "failing"
    await room.put("alone")
    waits = []
    for tries in range(1, 6):
        room.queue._failures.clear()
        await room.database.execute("UPDATE choir_memory.embedding_queue SET due_at = NULL")
        before = await room.database.fetchval("SELECT clock_timestamp()")
        await room.queue.embed_batch()
        [row] = await jobs(room)
        assert row["tries"] == tries
        waits.append((row["due_at"] - before).total_seconds())
    pace = room.queue._intervals
    wanted = [pace.retry_s, 2 * pace.retry_s, 4 * pace.retry_s, pace.sweep_s, pace.sweep_s]
    assert all(least <= wait for least, wait in zip(wanted, waits, strict=True)), waits


async def test_a_clock_that_was_set_back_keeps_no_document_waiting(
    room: Room, provider: ScriptedProvider
) -> None:
    await room.put("queued under a later clock")
    await room.database.execute(
        "UPDATE choir_memory.embedding_queue SET tries = 1, due_at = now() + interval '1 day'"
    )
    await work(room)
    assert await jobs(room) == []


async def test_what_waits_for_its_turn_is_not_taken_before(
    room: Room, provider: ScriptedProvider
) -> None:
    await room.put("tried a moment ago")
    await room.database.execute(
        "UPDATE choir_memory.embedding_queue SET tries = 1, due_at = now() + interval '1 minute'"
    )
    await work(room)
    assert provider.batches == []


async def test_a_search_that_works_again_lets_the_worker_go_on_at_once(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood, provider.retry_after = "rate_limited", "200"
    await room.put("the otter")
    await room.queue.embed_batch()
    provider.mood = "well"
    await room.put("the beaver")
    await work(room)
    assert len(provider.batches) == 1
    assert (await room.ask("anything")).degraded is None
    await work(room)
    await work(room)
    assert await jobs(room) == []


async def test_the_metrics_tell_what_waits_and_whether_the_embedder_is_well(
    room: Room, provider: ScriptedProvider
) -> None:
    metrics = Metrics("test")
    figures = EmbeddingMetrics(metrics, room.queue, room.embedders)
    provider.mood = "failing"
    await room.put("waiting")
    await work(room)
    await figures.update()
    told = metrics.render().decode()
    assert 'choir_memory_documents_without_vector{state="queued"} 1.0' in told
    assert "choir_memory_embedder_in_trouble 1.0" in told
    provider.mood = "well"
    await room.ask("anything")

    async def caught_up() -> bool:
        await work(room)
        return await jobs(room) == []

    await until(caught_up)
    await figures.update()
    told = metrics.render().decode()
    assert 'choir_memory_documents_without_vector{state="queued"} 0.0' in told
    assert "choir_memory_embedder_in_trouble 0.0" in told
    assert 'choir_memory_new_model_documents{state="all"} 0.0' in told

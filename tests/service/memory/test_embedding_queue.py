"""Vectors come later, in batches, and whatever the provider does no write or search waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from choir_memory.embedding.embedder import BATCH_SIZE
from choir_memory.text.splitting import FIRST_SENTENCE_PART
from tests.service.memory.conftest import Room, make_room
from tests.service.memory.lived import remember
from tests.service.memory.provider import Mood, ScriptedProvider
from tests.service.memory.servers import until
from tests.service.memory.test_search import embed_all


@asynccontextmanager
async def working(room: Room) -> AsyncIterator[None]:
    """Run the worker during the block."""
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(room.queue.run())
        yield
        worker.cancel()


async def vectors(room: Room) -> int:
    sql = "SELECT count(DISTINCT document_id) FROM choir_main.knowledge_embeddings"
    return int(await room.database.fetchval(sql))


async def all_embedded(room: Room) -> bool:
    return await room.queue.count_jobs() == (0, 0)


async def test_documents_get_their_vectors_in_batches(
    room: Room, provider: ScriptedProvider
) -> None:
    # before the worker starts: a slow database would otherwise give it one document at a time
    for number in range(BATCH_SIZE + 8):
        await room.put(f"note {number}")
    async with working(room):
        await until(lambda: all_embedded(room))
    assert await vectors(room) == BATCH_SIZE + 8
    assert sorted(map(len, provider.batches)) == [8, BATCH_SIZE]


async def test_only_a_users_message_that_states_and_asks_has_vectors_of_its_sentences(
    room: Room,
) -> None:
    mixed = "I drive a Volvo. How old is the sun?"
    texts = {"user": mixed, "agent": mixed, "plain": "I drive a Volvo. It is grey."}
    for position, (name, text) in enumerate(texts.items()):
        origin = "agent" if name == "agent" else "user"
        await remember(room, "s", position, text, kind="turn", speaker=name, origin=origin)
    await room.put(mixed)
    await embed_all(room)
    rows = await room.database.fetch(
        "SELECT d.speaker, array_agg(e.part ORDER BY e.part) AS parts FROM choir_main.memory_documents d "
        "JOIN choir_main.memory_embeddings e ON e.document_id = d.id GROUP BY 1"
    )
    sentences = [0, FIRST_SENTENCE_PART, FIRST_SENTENCE_PART + 1]
    assert dict(map(tuple, rows)) == {"user": sentences, "agent": [0], "plain": [0]}
    notes = await room.database.fetchval("SELECT max(part) FROM choir_main.knowledge_embeddings")
    assert notes == 0


async def test_work_left_by_a_killed_process_is_found_again(
    room: Room, provider: ScriptedProvider
) -> None:
    await room.put("left behind")
    later = await make_room(room.database, provider.embedder())
    async with working(later):
        await until(lambda: all_embedded(later))
    assert await vectors(later) == 1
    await later.guard._embedder.close()


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("rate_limited", "429"),
        ("failing", "HTTP 500"),
        ("wrong_length", "gives 3 dimensions and 8 are configured"),
        ("garbage", "cannot be parsed"),
        ("unauthorized", "embedding_key"),
        ("zero", "zero or non-finite vector"),
        ("refuses_all", "rejects every text"),
    ],
)
async def test_a_provider_in_trouble_costs_vectors_only_until_it_is_well(
    room: Room, provider: ScriptedProvider, mood: Mood, reason: str
) -> None:
    provider.mood = mood
    async with working(room):
        await room.put("the ferry sails at dawn")

        async def used_up() -> bool:
            return await room.queue.count_jobs() == (0, 1)

        await until(used_up)
        found = await room.ask("ferry")
        assert found.arms_used == ("text",)
        assert found.degraded is not None
        assert reason in found.degraded
        assert [hit.text for hit in found.hits] == ["the ferry sails at dawn"]
        provider.mood = "well"
        await until(lambda: all_embedded(room))
    assert await vectors(room) == 1


async def test_a_provider_that_refuses_connections_is_survived(
    room: Room, provider: ScriptedProvider
) -> None:
    await provider.stop()
    async with working(room):
        await room.put("text without a vector")
        found = await room.ask("vector")
        assert found.arms_used == ("text",) and found.degraded

        async def told() -> bool:
            return "cannot be reached" in (room.guard.trouble or "")

        await until(told)
        await provider.start()
        await until(lambda: all_embedded(room))
    assert room.guard.trouble is None


async def test_what_failed_long_ago_is_released_when_the_provider_is_back(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood = "failing"
    async with working(room):
        for number in range(3):
            await room.put(f"note {number}")

        async def used_up() -> bool:
            return await room.queue.count_jobs() == (0, 3)

        await until(used_up)
        # far beyond the test's patience: only the release can bring these two back
        await room.database.execute(
            "UPDATE choir_memory.embedding_queue SET due_at = now() + interval '1 hour' "
            "WHERE id > (SELECT min(id) FROM choir_memory.embedding_queue)"
        )
        provider.mood = "well"
        await until(lambda: all_embedded(room))
    assert await vectors(room) == 3


async def test_one_refused_text_does_not_hold_up_its_neighbours(
    room: Room, provider: ScriptedProvider
) -> None:
    for text in ("good one", f"{provider.refused_word} one", "another good one"):
        await room.put(text)
    async with working(room):

        async def only_one_left() -> bool:
            return sum(await room.queue.count_jobs()) == 1

        await until(only_one_left)
    assert await vectors(room) == 2
    assert room.guard.trouble is None


async def test_a_slow_provider_holds_up_neither_writes_nor_searches(
    room: Room, provider: ScriptedProvider
) -> None:
    answering = asyncio.Event()

    async def hold(_: list[str]) -> None:
        await answering.wait()

    provider.before_answer = hold
    embedder = provider.embedder(timeout_s=120)
    hurried = await make_room(room.database, embedder, query_deadline_s=1.0)
    async with working(hurried):
        await room.put("first")

        async def asked() -> bool:
            return bool(provider.batches)

        await until(asked)
        # the worker now waits for the provider, which answers nobody until the test lets it
        await room.put("second")
        await room.put("first, corrected", operation="update", document_id=await first_id(room))
        found = await hurried.ask("corrected")
        assert found.arms_used == ("text",)
        assert "in time" in (found.degraded or "")
        answering.set()
        await until(lambda: all_embedded(hurried))
    assert (await room.ask("corrected")).arms_used == ("text", "vector")


async def first_id(room: Room) -> str:
    sql = "SELECT id FROM choir_main.knowledge_documents WHERE text = 'first'"
    return str(await room.database.fetchval(sql))


async def test_a_text_changed_while_it_is_embedded_gets_the_vector_of_the_new_text(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood = "slow"
    long_text = "old words here. " * 200
    async with working(room):
        made = await room.put(long_text)

        async def asked() -> bool:
            return bool(provider.batches)

        await until(asked)
        await room.put("new", operation="update", document_id=made.document_id)
        provider.mood = "well"
        await until(lambda: all_embedded(room))
    parts = await room.database.fetchval("SELECT count(*) FROM choir_main.knowledge_embeddings")
    assert parts == 1


async def test_a_document_deleted_while_it_is_embedded_stays_deleted(
    room: Room, provider: ScriptedProvider
) -> None:
    provider.mood = "slow"
    async with working(room):
        made = await room.put("short-lived")

        async def asked() -> bool:
            return bool(provider.batches)

        await until(asked)
        await room.put(None, operation="delete", document_id=made.document_id)
        await until(lambda: all_embedded(room))
    assert await vectors(room) == 0


async def test_after_three_failures_searches_stop_asking_for_a_while(
    room: Room, provider: ScriptedProvider
) -> None:
    await room.put("something")
    provider.mood = "failing"
    for number in range(6):
        assert (await room.ask(f"query {number}")).arms_used == ("text",)
    assert len(provider.batches) == 3


async def test_two_workers_share_a_queue_without_doing_anything_twice(
    room: Room, provider: ScriptedProvider
) -> None:
    for number in range(3 * BATCH_SIZE):
        await room.put(f"note {number}")
    other = await make_room(room.database, provider.embedder())
    async with working(room), working(other):
        await until(lambda: all_embedded(room))
    embedded = [text for batch in provider.batches for text in batch]
    assert len(embedded) == len(set(embedded)) == 3 * BATCH_SIZE
    await other.guard._embedder.close()

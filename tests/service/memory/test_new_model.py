"""Another embedding model: built beside the old one, which serves until all documents have new vectors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest

from choir_common.clock import SystemClock
from choir_common.postgres.pool import Connection, Database
from choir_memory.embedding import model_store
from choir_memory.embedding.embedder import Embedder
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue
from choir_memory.embedding.reembedding import Reembedding
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.knowledge.upsert import KnowledgeService
from tests.service.memory.conftest import QUICK, FakeEmbedderFactory, Room, make_search
from tests.service.memory.lived import remember_session
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.servers import until

LENGTH = 5
PAGE = 64


@dataclass
class Replica:
    """A process that is configured for the second model."""

    room: Room
    rebuild: Reembedding

    @property
    def progress(self) -> Any:
        return self.room.embedders.progress()

    async def finish(self) -> None:
        """Do all steps there are, of the walk and of the queue."""
        while await self.rebuild.step() or await self.room.queue.embed_batch():
            pass
        await self.room.embedders.refresh()


async def start(
    room: Room, *embedders: Embedder, database: Database | None = None, grace_s: float = 0.0
) -> Replica:
    """Start a replica configured for the first of `embedders`, which can have the others as well."""
    database = database or room.database
    known = EmbedderRegistry(
        database=database,
        factory=FakeEmbedderFactory(*embedders),
        clock=SystemClock(),
        query_deadline_s=5.0,
    )
    await known.open()
    queue = EmbeddingQueue(database=database, spaces=room.spaces, embedders=known, intervals=QUICK)
    replica = Room(
        database,
        room.spaces,
        known,
        queue,
        KnowledgeService(database, room.spaces, queue),
        make_search(database, room.spaces, known),
        room.dsn,
        calls=1_000,
    )
    rebuild = Reembedding(
        database=database,
        spaces=room.spaces,
        embedders=known,
        queue=queue,
        poll_s=QUICK.poll_s,
        grace_s=grace_s,
        page=PAGE,
    )
    return Replica(replica, rebuild)


@pytest.fixture
async def second() -> AsyncIterator[ScriptedProvider]:
    """The provider of the second model."""
    async with ScriptedProvider(native=LENGTH) as server:
        yield server


async def fill(room: Room, notes: int = 3) -> None:
    for number in range(notes):
        await room.put(f"note {number} of the harbour")
    await remember_session(room, "s1", "mid_term", "we sailed at dawn")
    while await room.queue.embed_batch():
        pass


async def vectors(room: Room) -> dict[tuple[str, str, int], int]:
    """Return how many documents have vectors, by store, model and length."""
    found: dict[tuple[str, str, int], int] = {}
    for table in ("memory", "knowledge"):
        rows = await room.database.fetch(
            "SELECT m.name, vector_dims(e.embedding) AS length, count(DISTINCT document_id) AS n "
            f"FROM choir_main.{table}_embeddings e "
            "JOIN choir_memory.embedding_models m ON m.id = e.model GROUP BY 1, 2"
        )
        found.update({(table, row["name"], row["length"]): row["n"] for row in rows})
    return found


OLD = {("memory", "scripted", 8): 1, ("knowledge", "scripted", 8): 3}
NEW = {("memory", "second", LENGTH): 1, ("knowledge", "second", LENGTH): 3}


async def jobs(room: Room) -> int:
    return int(await room.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue"))


async def test_the_old_model_serves_until_every_document_has_its_new_vector(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    assert replica.room.embedders.name == "scripted"
    while await replica.rebuild.step():
        pass
    building = await replica.progress
    assert (building.name, building.done, building.documents) == ("second", 0, 4)
    found = await replica.room.ask("note harbour")
    assert found.arms_used == ("text", "vector")
    assert await vectors(room) == OLD
    while await replica.room.queue.embed_batch():
        pass
    assert await vectors(room) == OLD | NEW
    building = await replica.progress
    assert (building.done, building.documents) == (4, 4)
    assert (await replica.room.ask("harbour note 1")).arms_used == ("text", "vector")
    await replica.finish()
    assert replica.room.embedders.name == "second"
    assert replica.room.embedders.dimensions == LENGTH
    assert await replica.progress is None
    assert await vectors(room) == NEW
    assert await jobs(room) == 0
    found = await replica.room.ask("harbour")
    assert all({arm.arm for arm in hit.arms} >= {"text", "vector"} for hit in found.hits)


async def test_the_worker_and_the_walk_come_to_the_end_by_themselves(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room, PAGE + 5)
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())

    async def over() -> bool:
        return ("knowledge", "scripted", 8) not in await vectors(room)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (replica.rebuild, replica.room.queue)]
        await until(over, 60)
        for one in running:
            one.cancel()
    assert (await vectors(room))[("knowledge", "second", LENGTH)] == PAGE + 5


async def test_what_is_written_meanwhile_gets_vectors_of_both_models(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    # the other replica knows nothing of it yet, and writes nonetheless for both
    await room.put("written by another replica")
    await replica.room.put("written here")
    while await replica.room.queue.embed_batch():
        pass
    assert await vectors(room) == {
        ("memory", "scripted", 8): 1,
        ("knowledge", "scripted", 8): 5,
        ("knowledge", "second", LENGTH): 2,
    }
    await replica.finish()
    assert await vectors(room) == NEW | {("knowledge", "second", LENGTH): 5}


async def test_a_write_under_way_when_the_change_begins_is_not_missed(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    late = UUID(int=1)  # the walk would not come by again
    waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"

    async def blocked() -> bool:
        return bool(await room.database.fetchval(waits))

    async with asyncio.TaskGroup() as tasks:
        async with room.database.transaction() as held:
            await held.execute(
                "INSERT INTO choir_main.knowledge_documents (id, text, tsv, tokens) "
                "VALUES ($1, 'late', '', 1)",
                late,
            )
            await enqueue(held, "main", "knowledge", late)
            starting = tasks.create_task(
                start(room, second.embedder(LENGTH, "second"), provider.embedder())
            )
            await until(blocked)
    replica = starting.result()
    await replica.finish()
    assert await vectors(room) == NEW | {("knowledge", "second", LENGTH): 4}


async def test_while_the_new_provider_is_down_the_old_model_serves_on(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    second.mood = "failing"
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (replica.rebuild, replica.room.queue)]

        async def used_up() -> bool:
            sql = "SELECT count(*) FROM choir_memory.embedding_queue WHERE tries > 3"
            return bool(await room.database.fetchval(sql) == 4)

        await until(used_up)
        assert replica.room.embedders.name == "scripted"
        assert replica.room.embedders.trouble is None
        assert (await replica.room.ask("harbour")).arms_used == ("text", "vector")
        # nor does it keep the old model's new documents waiting
        await replica.room.put("a new note")
        await until(lambda: both(room, {("knowledge", "scripted", 8): 4}))
        second.mood = "well"
        await until(lambda: both(room, {("knowledge", "second", LENGTH): 4}))
        for one in running:
            one.cancel()


async def test_a_new_provider_that_hangs_holds_up_no_vector_of_the_old_model(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def hang(_: list[str]) -> None:
        asked.set()
        await answer.wait()

    second.before_answer = hang
    patient = second.embedder(LENGTH, "second", timeout_s=60)
    replica = await start(room, patient, provider.embedder())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (replica.rebuild, replica.room.queue)]
        await asked.wait()
        await replica.room.put("a new note")
        await until(lambda: both(room, {("knowledge", "scripted", 8): 4}))
        answer.set()
        for one in running:
            one.cancel()


async def both(room: Room, wanted: dict[tuple[str, str, int], int]) -> bool:
    return wanted.items() <= (await vectors(room)).items()


async def test_a_text_that_the_new_model_refuses_does_not_hold_up_the_switch(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    await room.put("a word that is odd to the second")
    while await room.queue.embed_batch():
        pass
    second.refused_word = "odd"
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (replica.rebuild, replica.room.queue)]

        async def switched() -> bool:
            return replica.room.embedders.name == "second"

        await until(switched)
        for one in running:
            one.cancel()
    found = await replica.room.ask("odd")
    assert [hit.text for hit in found.hits][:1] == ["a word that is odd to the second"]


async def test_a_provider_that_refuses_everything_never_takes_over(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    second.mood = "refuses_all"
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (replica.rebuild, replica.room.queue)]

        async def used_up() -> bool:
            sql = "SELECT count(*) FROM choir_memory.embedding_queue WHERE tries > 4"
            return bool(await room.database.fetchval(sql) == 4)

        await until(used_up)
        for one in running:
            one.cancel()
    await replica.finish()
    assert replica.room.embedders.name == "scripted"
    assert await vectors(room) == OLD


async def test_a_configuration_that_is_set_back_ends_the_change(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    await replica.rebuild.step()
    await replica.rebuild.step()
    await replica.rebuild.step()
    await replica.room.queue.embed_batch()
    back = await start(room, provider.embedder())
    assert await back.progress is None
    await back.finish()
    assert await vectors(room) == OLD
    assert await jobs(room) == 0
    # and the one that was given up does nothing more
    await replica.finish()
    assert await vectors(room) == OLD
    assert replica.room.embedders.name == "scripted"


async def test_without_the_old_provider_the_new_model_serves_what_it_has_seen(
    room: Room, second: ScriptedProvider
) -> None:
    await fill(room)
    replica = await start(room, second.embedder(LENGTH, "second"))
    assert replica.room.embedders.name == "second"
    assert (await replica.room.ask("harbour")).hits, "text is searched as ever"
    await replica.finish()
    assert await vectors(room) == NEW


async def test_a_replica_that_cannot_have_the_new_model_searches_text_and_says_so(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    replica = await start(room, second.embedder(LENGTH, "second"), provider.embedder())
    await replica.finish()
    await room.embedders.refresh()
    found = await room.ask("harbour")
    assert found.arms_used == ("text",)
    assert "second" in (found.degraded or "")


async def test_replicas_share_the_change_and_make_no_vector_twice(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room, 3 * PAGE)
    replicas = [
        await start(room, second.embedder(LENGTH, "second"), provider.embedder()) for _ in range(2)
    ]
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(one.run())
            for replica in replicas
            for one in (replica.rebuild, replica.room.queue)
        ]

        async def over() -> bool:
            return all(one.room.embedders.name == "second" for one in replicas)

        await until(over, 60)
        for one in running:
            one.cancel()
    texts = [text for batch in second.batches for text in batch]
    assert len(texts) == len(set(texts)) == 3 * PAGE + 1


class Cut(Exception):
    """The process ends here."""


class CutDatabase:
    """A database that breaks off at the statement numbered `at`, counted over all transactions."""

    def __init__(self, database: Database, at: int) -> None:
        self._database = database
        self.left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._database.transaction() as held:
            yield cast("Connection", CutConnection(held, self))
            self.tick()

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self._database.connection()

    def tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cut


class CutConnection:
    """Passes statements on until the cut."""

    def __init__(self, held: Connection, owner: CutDatabase) -> None:
        self._held = held
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._held, name)

        async def counted(*arguments: object) -> Any:
            self._owner.tick()
            return await call(*arguments)

        return counted


async def test_a_change_that_is_cut_at_any_statement_goes_on_to_the_same_end(
    room: Room, provider: ScriptedProvider, second: ScriptedProvider
) -> None:
    await fill(room)
    cuts = 0
    new, old = second.embedder(LENGTH, "second"), provider.embedder()
    while await vectors(room) != NEW:
        # one statement further each time, so that every one of them is the last once
        cuts += 1
        database = cast("Database", CutDatabase(room.database, cuts))
        try:
            await (await start(room, new, old, database=database)).finish()
        except Cut:
            assert (await room.ask("harbour")).hits
    await (await start(room, new, old)).finish()
    assert await jobs(room) == 0
    assert [one.name for one in await model_store.read_live_models(room.database)] == ["second"]
    assert cuts > 10

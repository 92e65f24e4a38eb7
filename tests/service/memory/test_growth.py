"""What upkeep does as a memory grows: indexes, statistics, an end of old traces."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from choir_common.errors import ChoirError
from choir_memory.maintenance.database_upkeep import (
    ADVISORY_LOCK_KEY,
    DatabaseUpkeep,
    UpkeepSettings,
)
from choir_memory.maintenance.index_store import try_lock
from tests.service.memory.conftest import Room
from tests.service.memory.grown import grow, vector_indexes
from tests.service.memory.servers import until

HABITS = UpkeepSettings(
    upkeep_s=60.0,
    index_from=100,
    index_build_mb=16,
    receipts_days=30,
    audit_days=365,
    operations_days=30,
)


@pytest.fixture
def upkeep(room: Room) -> DatabaseUpkeep:
    return DatabaseUpkeep(room.database, HABITS)


async def build_waits(room: Room) -> bool:
    """Tell whether the making of an index waits for somebody."""
    return bool(
        await room.database.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE query LIKE '%CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'"
        )
    )


async def test_a_space_gets_an_index_when_it_is_large_and_loses_it_when_it_is_small_again(
    room: Room, upkeep: DatabaseUpkeep
) -> None:
    await grow(room, 99)
    await upkeep.round()
    assert await vector_indexes(room) == {}
    await room.database.execute("DELETE FROM choir_main.memory_documents")
    await grow(room, 150)
    await upkeep.round()
    ((name, valid),) = (await vector_indexes(room)).items()
    assert name.startswith("memory_embeddings_hnsw_")
    assert valid
    await room.database.execute("DELETE FROM choir_main.memory_documents")
    await room.database.execute("VACUUM choir_main.memory_embeddings")
    await upkeep.round()
    assert await vector_indexes(room) == {}


async def test_an_index_whose_making_was_cut_off_is_made_anew(
    room: Room, upkeep: DatabaseUpkeep
) -> None:
    await grow(room, 150)
    async with room.database.transaction() as writer:
        # the build waits for this writer, and is killed meanwhile
        await writer.execute("DELETE FROM choir_main.memory_embeddings WHERE part = 7")
        building = asyncio.create_task(upkeep.round())
        await until(lambda: build_waits(room))
        await room.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE '%CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'"
        )
        with contextlib.suppress(ChoirError):
            await building
    assert list((await vector_indexes(room)).values()) == [False]
    # what broke is known to be broken for an hour by the process it broke in, and by no other
    await DatabaseUpkeep(room.database, HABITS).round()
    assert list((await vector_indexes(room)).values()) == [True]


async def test_an_index_that_got_in_the_way_of_somebody_is_made_in_the_next_round(
    room: Room, upkeep: DatabaseUpkeep
) -> None:
    await grow(room, 150)
    async with room.database.transaction() as other:
        await other.execute("SET LOCAL deadlock_timeout = '1min'")
        await other.execute("DELETE FROM choir_main.memory_embeddings WHERE part = 7")
        building = asyncio.create_task(upkeep.round())
        await until(lambda: build_waits(room))
        # it wants what the build holds while the build waits for it: Postgres ends the build
        await other.execute("ANALYZE choir_main.memory_embeddings")
        await building
    assert list((await vector_indexes(room)).values()) == [False]
    await upkeep.round()
    assert list((await vector_indexes(room)).values()) == [True]


async def test_one_replica_at_a_time_does_upkeep(room: Room, upkeep: DatabaseUpkeep) -> None:
    async with room.database.dedicated_connection() as other:
        assert await try_lock(other, ADVISORY_LOCK_KEY)
        assert not await upkeep.round()

    async def our_turn() -> bool:
        return await upkeep.round()

    await until(our_turn)  # the lock goes with the connection


async def test_traces_are_kept_as_long_as_they_are_of_use(
    room: Room, upkeep: DatabaseUpkeep
) -> None:
    await room.put("a note")
    for days in (1, 40, 400):
        at = f"now() - interval '{days} days'"
        await room.database.execute(
            "INSERT INTO choir_memory.receipts (id, at, agent_id, asked_by, receipt) "
            f"VALUES (gen_random_uuid(), {at}, 'main', 'main', '{{}}')"
        )
        await room.database.execute(
            "INSERT INTO choir_memory.audit (at, agent_id, actor, operation) "
            f"VALUES ({at}, 'main', 'operator', 'test-{days}')"
        )
        await room.database.execute(
            "INSERT INTO choir_main.operations (call_id, digest, made_at) "
            f"VALUES ('old-{days}', '', {at})"
        )
    await upkeep.round()
    fetch = room.database.fetch
    assert len(await fetch("SELECT FROM choir_memory.receipts")) == 1
    audited = await fetch("SELECT operation FROM choir_memory.audit WHERE actor = 'operator'")
    assert {row["operation"] for row in audited} == {"test-1", "test-40"}
    calls = await fetch("SELECT call_id FROM choir_main.operations")
    assert {row["call_id"] for row in calls} == {"call-1", "old-1"}
    assert (await room.ask("note")).hits


async def test_a_space_that_postgres_knows_nothing_of_is_looked_at(room: Room) -> None:
    await grow(room, 6_000)
    known = "SELECT reltuples FROM pg_class WHERE oid = 'choir_main.memory_documents'::regclass"
    await room.database.execute(
        "UPDATE pg_class SET reltuples = -1 WHERE oid = 'choir_main.memory_documents'::regclass"
    )
    await DatabaseUpkeep(room.database, replace(HABITS, index_from=1_000_000)).round()
    assert await room.database.fetchval(known) == 6_000

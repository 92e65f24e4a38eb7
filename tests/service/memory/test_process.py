"""The service as a process: readiness, crashes of itself, Postgres and NATS, and clear refusals."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.bus.client import Bus
from choir_common.errors import ChoirError, NotFound, Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryUpsert,
    MemoryWritten,
)
from choir_local.nats import EmbeddedNats
from choir_local.postgres import EmbeddedPostgres
from tests.service.memory.servers import (
    MakeMemory,
    MemoryProcess,
    running_nats,
    until,
)
from tests.support.bus import BUS_KEY
from tests.support.postgres import PASSWORD, fresh_database, running_postgres


def write(number: int, text: str | None = None) -> MemoryUpsert:
    return MemoryUpsert(
        agent_id="main",
        call_id=f"c{number}",
        operation="insert",
        text=text or f"note number {number}",
    )


async def search(memory: MemoryProcess, query: str) -> MemoryHits:
    return await memory.client.query(
        MemoryQuery(agent_id="main", store="knowledge", query=query, limit=50)
    )


async def insist(memory: MemoryProcess, wanted: MemoryUpsert) -> MemoryWritten:
    """Ask as an agent's tool does: again, under the same call, while a part is away."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await memory.client.upsert(wanted)
            except Unavailable:
                await asyncio.sleep(0.2)


async def idle(memory: MemoryProcess) -> bool:
    try:
        status = await memory.client.status()
    except ChoirError:
        return False
    return status.queued + status.failed == 0


async def resident_mb(memory: MemoryProcess) -> int:
    assert memory.process
    status = Path(f"/proc/{memory.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found
    return int(found.group(1)) // 1024


async def test_it_finds_by_meaning_with_the_offline_model(make_memory: MakeMemory) -> None:
    memory = make_memory()
    memory.is_fork = False
    await memory.start()
    assert await resident_mb(memory) <= 110, "the model was loaded before it was needed"
    await memory.client.upsert(write(1, "My daughter plays the violin in an orchestra."))
    await memory.client.upsert(write(2, "The car needs new brake pads before winter. " * 40))
    await until(lambda: idle(memory))
    found = await search(memory, "which musical instrument does my child practise?")
    assert found.arms_used == ("text", "vector")
    assert found.hits[0].text.startswith("My daughter")
    # 172 on a machine on which it was 181 before two savings (decision 52)
    assert await resident_mb(memory) <= 180
    assert (await memory.client.status()).dimensions == 384
    assert await memory.stop() == 0


async def test_a_killed_service_loses_no_write_and_makes_no_write_twice(
    make_memory: MakeMemory,
) -> None:
    memory = make_memory(CHOIR_EMBEDDING_TICK_S="5")
    await memory.start()
    written = [await memory.client.upsert(write(number)) for number in range(5)]
    await memory.kill()
    await memory.start()
    again = [await memory.client.upsert(write(number)) for number in range(5)]
    assert again == written
    await until(lambda: idle(memory), 60)
    found = await search(memory, "note number")
    assert {hit.document_id for hit in found.hits} == {one.document_id for one in written}
    assert all({arm.arm for arm in hit.arms} == {"text", "vector"} for hit in found.hits)


@pytest.fixture
async def own_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server this test may kill."""
    async with running_postgres() as server:
        yield server


async def test_it_works_on_after_postgres_was_killed(
    make_memory: MakeMemory, own_postgres: EmbeddedPostgres
) -> None:
    memory = make_memory(dsn=own_postgres.dsn)
    await memory.start()
    await memory.client.upsert(write(1))
    await until(lambda: idle(memory), 60)
    for round_number in range(2, 5):
        own_postgres._process.kill()  # type: ignore[union-attr]
        await own_postgres.wait()
        status, body = await memory.health("/readyz")
        assert (status, body["ready"]) == (503, False)
        assert (await memory.health("/livez"))[0] == 200
        # asked while the database is away, answered when it is back
        pending = asyncio.create_task(insist(memory, write(round_number)))
        await own_postgres.start()
        assert (await pending).operation == "inserted"
    assert len((await search(memory, "note")).hits) == 4
    await until(lambda: idle(memory), 60)
    assert (await memory.health("/readyz"))[0] == 200


async def test_it_works_on_after_nats_was_killed(
    make_memory: MakeMemory, nats: EmbeddedNats
) -> None:
    memory = make_memory()
    await memory.start()
    await memory.client.upsert(write(1))
    nats._process.kill()  # type: ignore[union-attr]
    await nats.wait()

    async def says_so() -> bool:
        status, body = await memory.health("/readyz")
        return status == 503 and "not reachable" in str(body)

    await until(says_so)
    await nats.start()

    async def answers() -> bool:
        try:
            return len((await search(memory, "note")).hits) == 1
        except ChoirError:
            return False

    await until(answers)


async def test_it_waits_for_a_bus_that_starts_later_and_says_what_it_waits_for(
    make_memory: MakeMemory, nats: EmbeddedNats
) -> None:
    await nats.stop()
    memory = make_memory()
    await memory.spawn()

    async def waits() -> bool:
        status, body = await memory.health("/readyz")
        parts = body.get("parts")
        names = [p["name"] for p in parts if not p["ok"]] if isinstance(parts, list) else []
        return status == 503 and names == ["nats"]

    await until(waits)
    await nats.start()
    await until(lambda: idle(memory))


@pytest.mark.nightly  # the test above waits for the bus
async def test_it_stops_cleanly_while_it_still_waits(
    make_memory: MakeMemory, nats: EmbeddedNats
) -> None:
    await nats.stop()
    memory = make_memory()
    await memory.spawn()

    async def lives() -> bool:
        return (await memory.health("/livez"))[0] == 200

    await until(lives)
    assert await memory.stop() == 0


async def test_it_ends_by_itself_when_postgres_and_nats_end_with_it(
    make_memory: MakeMemory,
) -> None:
    """As after the end of the supervisor, which takes all of them along; each time a little differently."""
    for later_ms in (0, 20):
        async with running_postgres() as postgres, running_nats() as nats:
            memory = make_memory(dsn=postgres.dsn, nats_url=nats.url)
            await memory.start()
            servers = (asyncio.create_task(postgres.stop()), asyncio.create_task(nats.stop()))
            await asyncio.sleep(later_ms / 1000)
            assert await memory.stop() == 0, memory.log[-3000:]
            await asyncio.gather(*servers)


async def test_two_replicas_share_the_work(make_memory: MakeMemory) -> None:
    first, second = make_memory(), make_memory()
    await asyncio.gather(first.start(), second.start())
    await asyncio.gather(*(first.client.upsert(write(number)) for number in range(20)))
    await first.kill()
    await until(lambda: idle(second), 60)
    assert len((await search(second, "note number")).hits) == 20


async def test_ensure_makes_an_empty_space(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.start()
    elsewhere = MemoryQuery(agent_id="main", target_agent="new", store="knowledge", query="x")
    with pytest.raises(NotFound, match="new"):
        await memory.client.query(elsewhere)
    await memory.client.ensure(EnsureSpace(agent_id="new"))
    await memory.client.ensure(EnsureSpace(agent_id="new"))
    assert (await memory.client.query(elsewhere)).hits == ()


async def refused(memory: MemoryProcess) -> str:
    """Return the paragraph the process ended with."""
    process = await memory.spawn()
    assert await asyncio.wait_for(process.wait(), 60) == 1
    assert "Traceback" not in memory.log
    return memory.log.strip().splitlines()[-1]


@pytest.mark.nightly  # test_new_model.py builds another
async def test_another_model_is_built_beside_the_stored_one_which_serves_meanwhile(
    make_memory: MakeMemory,
) -> None:
    memory = make_memory()
    await memory.start()
    await memory.client.upsert(write(1))
    await until(lambda: idle(memory), 60)
    await memory.stop()
    other = make_memory(
        CHOIR_EMBEDDING_ENDPOINT="http://127.0.0.1:9/v1",
        CHOIR_EMBEDDING_MODEL="other-model",
        CHOIR_EMBEDDING_DIMENSIONS="1536",
    )
    await other.start()

    async def counted() -> bool:
        building = (await other.client.status()).building
        return building is not None and building.documents == 1

    await until(counted, 60)
    status = await other.client.status()
    assert (status.embedder, status.dimensions) == ("all-MiniLM-L6-v2-int8", 384)
    assert status.limitation and "English" in status.limitation
    assert status.building is not None
    assert (status.building.embedder, status.building.done) == ("other-model", 0)

    async def searches_vectors() -> bool:
        # once the old model is loaded
        return "vector" in (await search(other, "number")).arms_used

    await until(searches_vectors, 60)


@pytest.mark.nightly  # test_new_model.py changes models
async def test_the_model_may_be_changed_while_nothing_is_stored(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.start()
    await memory.stop()
    other = make_memory(CHOIR_EMBEDDING_ENDPOINT="http://127.0.0.1:9/v1")
    await other.start()
    assert (await other.client.status()).dimensions == 1536


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"CHOIR_EMBEDDING_DIMENSIONS": "768"}, "CHOIR_EMBEDDING_ENDPOINT"),
        pytest.param(
            {"CHOIR_EMBEDDING_ENDPOINT": "ftp://x"},
            "embedding_endpoint",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            {"CHOIR_EMBEDDING_TICK_S": "soon"},
            "embedding_tick_s",
            marks=pytest.mark.nightly,
        ),
        ({"CHOIR_SECRETS_FILE": "/nonexistent/secrets.json"}, "/nonexistent/secrets.json"),
        pytest.param(
            {"CHOIR_MEMORY_SOCKET": "/tmp/" + "x" * 120 + ".sock"},
            "107",
            marks=pytest.mark.nightly,
        ),
        ({"CHOIR_MEMORY_HTTP": "127.0.0.1:99999"}, "CHOIR_MEMORY_HTTP"),
    ],
)
async def test_a_setting_that_does_not_fit_is_explained_in_one_paragraph(
    make_memory: MakeMemory, env: dict[str, str], complaint: str
) -> None:
    assert complaint in await refused(make_memory(**env))


async def test_a_wrong_password_is_explained_without_the_password(
    make_memory: MakeMemory,
) -> None:
    memory = make_memory()
    memory.secrets = {"postgres_password": "not-the-password"}
    said = await refused(memory)
    assert "password" in said
    assert "not-the-password" not in memory.log


async def test_the_database_that_config_json_names_counts_more_than_the_environment(
    make_memory: MakeMemory, postgres: str, database: Database, dsn: str
) -> None:
    async with fresh_database(postgres) as elsewhere:
        memory = make_memory(CHOIR_POSTGRES_DSN=elsewhere)
        memory.secrets = {"postgres_dsn": dsn}
        await memory.start()
        await memory.client.upsert(write(1))
        await memory.stop()
        assert await database.fetchval("SELECT count(*) FROM choir_memory.spaces") == 1
        async with Database(elsewhere, PASSWORD, size=1, application="test") as unused:
            assert await unused.fetchval("SELECT to_regclass('choir_memory.spaces')") is None


async def test_a_secret_never_reaches_the_log(make_memory: MakeMemory) -> None:
    memory = make_memory(CHOIR_LOG_LEVEL="debug", CHOIR_EMBEDDING_ENDPOINT="http://127.0.0.1:9/v1")
    memory.secrets = {"embedding_key": "canary-5c1e0d"}
    await memory.start()
    await memory.client.upsert(write(1))
    assert (await search(memory, "note")).degraded
    assert memory.process
    memory.process.send_signal(signal.SIGTERM)
    await memory.process.wait()
    for secret in ("canary-5c1e0d", BUS_KEY, "test-password"):
        assert secret not in memory.log


async def test_it_answers_on_a_port_when_told_to(
    make_memory: MakeMemory, bus: Bus, unused_tcp_port: int
) -> None:
    memory = make_memory(CHOIR_MEMORY_HTTP=f"127.0.0.1:{unused_tcp_port}")
    await memory.spawn()
    await until(lambda: idle(memory))
    reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"200" in (await reader.readline())
    writer.close()

"""Parts go down and come back; control says so, and nothing is lost."""

import asyncio

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import EnsureSpace, MemoryHits, MemoryQuery
from choir_common.wire.messages import Empty
from choir_local.bus_users import create_seed
from choir_local.postgres import EmbeddedPostgres
from tests.service.control.world import World, make_world, until
from tests.service.memory.servers import running_nats
from tests.support.bus import BUS_KEY
from tests.support.postgres import PASSWORD, running_postgres


async def test_postgres_goes_away_in_the_middle_of_a_turn_and_comes_back() -> None:
    async with running_postgres() as postgres, running_nats() as nats:
        async with (
            Bus(nats.url, BUS_KEY, "test") as bus,
            Database(postgres.dsn, PASSWORD, size=2, application="test") as database,
            make_world(postgres.dsn, PASSWORD, nats.url, database, bus) as world,
        ):
            world.lose_after(3)
            await world.start()
            agent = await world.agent()
            await agent.begin()
            await world.say("hello", "1")
            message = await agent.next_message()
            await agent.take_up(message)

            await kill(postgres)
            assert list(await world.missing()) == ["postgres"]
            refused = await agent.post("HEARTBEAT", agent.heartbeat())
            assert refused.status_code == 503
            status = (await world.get("/v1/status")).json()
            assert not status["ready"] and status["agents"] == []
            agent.say("still here", answers=message.inbox_id)
            # longer than the crash threshold: the agent is not to blame for this silence
            await asyncio.sleep(4)
            await postgres.start()

            async def flushed() -> bool:
                return (await agent.post("HEARTBEAT", agent.heartbeat())).status_code == 200

            await until(flushed)
            assert await world.delivered(1) == ["still here"]
            assert len(world.runtime.specs) == 1
            session = agent.spec.session_id
            assert (await world.verify(session))["ok"]
            assert (await world.say("hello", "1")).duplicate


async def test_an_exit_while_postgres_is_away_is_mended_when_it_is_back() -> None:
    async with running_postgres() as postgres, running_nats() as nats:
        async with (
            Bus(nats.url, BUS_KEY, "test") as bus,
            Database(postgres.dsn, PASSWORD, size=2, application="test") as database,
            make_world(postgres.dsn, PASSWORD, nats.url, database, bus) as world,
        ):
            await world.start()
            await (await world.agent()).begin()
            await kill(postgres)
            world.runtime.die("main")
            await asyncio.sleep(0.5)
            assert len(world.runtime.specs) == 1
            await postgres.start()
            resumed = await world.agent(starts=2)
            assert resumed.spec.epoch == 2


async def test_a_wrong_key_to_the_bus_is_a_reason_not_a_crash(stopped: World) -> None:
    stopped.secrets = stopped.secrets.model_copy(update={"nats_key": create_seed()})
    started = asyncio.create_task(stopped.start())

    async def unready() -> bool:
        return not await stopped.is_ready()

    await asyncio.sleep(1)
    await until(unready)
    assert (await stopped.get("/livez")).status_code == 200
    started.cancel()


async def test_a_runtime_that_is_away_is_a_reason_and_choird_lives(world: World) -> None:
    world.runtime.away = "the engine is away"
    assert await world.missing() == {"runtime": "the engine is away"}
    assert (await world.get("/livez")).status_code == 200
    world.runtime.away = ""
    assert await world.is_ready()


async def kill(postgres: EmbeddedPostgres) -> None:
    """End the server; what was acknowledged must be there when it starts again."""
    await postgres.stop()


async def test_a_host_tool_whose_service_is_away_fails_and_works_when_it_is_back(
    world: World, bus: Bus
) -> None:
    agent = await world.agent()
    await agent.begin()
    body = (
        b'{"tool_name":"choir.memory.query","call_id":"c1",'
        b'"input":{"store":"knowledge","query":"x"}}'
    )
    away = (await agent.post("EXECUTE_HOST_TOOL", body)).json()
    assert away["status"] == "error" and away["output"]["code"] == "unavailable"

    asked: list[str] = []

    async def ensure(space: EnsureSpace) -> Empty:
        asked.append(f"ensure {space.agent_id}")
        return Empty()

    async def query(request: MemoryQuery) -> MemoryHits:
        asked.append(f"{request.agent_id} asks {request.target_agent or 'itself'}")
        if request.query == "down":
            raise Unavailable("the database is away")
        return MemoryHits(hits=(), arms_used=("text",))

    async with bus.serve(
        "choir-memory",
        "1.0.0",
        Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
        Endpoint(subjects.query_memory(), MemoryQuery, query),
    ):
        found = (await agent.post("EXECUTE_HOST_TOOL", body)).json()
        assert found == {
            "call_id": "c1",
            "status": "success",
            "output": MemoryHits(hits=(), arms_used=("text",)).model_dump(mode="json"),
        }
        other = body.replace(b'"query":"x"', b'"query":"x","target_agent":"other"')
        assert (await agent.post("EXECUTE_HOST_TOOL", other)).json()["status"] == "success"
        down = body.replace(b'"x"', b'"down"')
        assert (await agent.post("EXECUTE_HOST_TOOL", down)).json()["output"] == {
            "code": "unavailable",
            "message": "the database is away",
        }
    assert asked == ["ensure main", "main asks itself", "main asks other", "main asks itself"]


async def test_the_console_says_that_the_gateway_is_away(world: World) -> None:
    answer = await world.post("/v1/dms/console/messages", json={"files": ["console/abc"]})
    assert answer.status_code == 503 and "gateway" in answer.json()["detail"]

"""A session's log is followed as it grows, and taken up again where a reader was cut off."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import ChoirError, NotFound
from choir_common.http.client import make_client
from choir_common.http.response_parser import ServerSentEvent, parse_events
from choir_common.target import Target
from choirctl.api.control import connect
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_sessions import stop_well
from tests.service.control.world import World


@contextlib.asynccontextmanager
async def followed(
    world: World, session: str, **headers: str
) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
    path = f"/v1/sessions/{session}/events/stream"
    async with (
        make_client(world.endpoint, timeout_s=30) as client,
        client.stream("GET", path, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        yield parse_events(answer.aiter_bytes())


async def take(stream: AsyncIterator[ServerSentEvent], count: int) -> list[int]:
    """Return the revisions of the next events."""
    async with asyncio.timeout(60):
        return [int((await anext(stream)).id) for _ in range(count)]


async def test_events_come_as_they_are_stored_until_the_session_is_over(
    world: World, agent: AgentHand
) -> None:
    async with followed(world, agent.spec.session_id) as stream:
        assert await take(stream, 1) == [1]
        for text in ("one", "two"):
            await agent.reply(text, kind="notice")
        assert await take(stream, 2) == [2, 3]
        await stop_well(world, agent)
        async with asyncio.timeout(60):
            rest = [event async for event in stream]
    assert [event.event for event in rest] == ["end"] and "stopped" in rest[0].data


async def test_a_reader_goes_on_after_the_last_event_it_has(world: World, agent: AgentHand) -> None:
    for number in range(4):
        await agent.reply(str(number), kind="notice")
    headers = {"Last-Event-ID": "3"}
    async with followed(world, agent.spec.session_id, **headers) as stream:
        assert await take(stream, 2) == [4, 5]


async def test_choird_stops_although_logs_are_followed(world: World, agent: AgentHand) -> None:
    async with followed(world, agent.spec.session_id) as stream:
        await take(stream, 1)
        await world.stop()


async def test_an_id_that_is_none_is_refused(
    world: World, agent: AgentHand, subtests: pytest.Subtests
) -> None:
    path = f"/v1/sessions/{agent.spec.session_id}/events/stream"
    for last in ("x", "-1", "9" * 30):
        with subtests.test(last):
            answer = await world.get(path, headers={"Last-Event-ID": last})
            assert answer.status_code == 400


async def test_choirctl_follows_through_a_restart_of_choird(world: World, agent: AgentHand) -> None:
    place = Target(Path(world.home), None)
    seen: list[int] = []

    async def follow() -> None:
        async with connect(place) as api:
            async for event in api.sessions.follow(agent.spec.session_id, 0):
                seen.append(event.rev)

    following = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        while not seen:
            await asyncio.sleep(0.05)
    await world.stop()
    await world.start()
    resumed = await world.agent()
    await resumed.hello()
    await resumed.reply("back", kind="notice")
    await stop_well(world, resumed)
    await asyncio.wait_for(following, 60)
    assert seen == [1, 2]


async def test_a_log_that_does_not_exist_is_said_at_once(world: World) -> None:
    async with connect(Target(Path(world.home), None)) as api:
        with pytest.raises(NotFound):
            await anext(aiter(api.sessions.follow("ses_none", 0)))
    async with connect(Target(Path(world.home), "http://127.0.0.1:9")) as api:
        with pytest.raises(ChoirError):
            await anext(aiter(api.sessions.follow("ses_none", 0)))

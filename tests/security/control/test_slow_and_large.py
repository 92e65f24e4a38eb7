"""Oversize, slow and endless requests cost choird neither memory nor time: row S2 of the fault matrix."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from httpx2 import Response

from choir_common.http.http_protocol import HEAD_TIMEOUT_S, MAX_HEAD_BYTES
from choir_common.wire.rpc import VERBS
from choir_control.api.rpc.rate_limits import VERB_LIMITS
from tests.security.doors.raw import Raw
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

MIB = 1 << 20


@pytest.fixture
async def agent(world: World) -> AsyncIterator[AgentHand]:
    """An agent that stays alive however long a test takes."""
    hand = await world.agent()
    await hand.begin()

    async def beat() -> None:
        while True:
            await hand.flush()
            await asyncio.sleep(0.5)

    beating = asyncio.create_task(beat())
    yield hand
    beating.cancel()
    [ended] = await asyncio.gather(beating, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def head_of(agent: AgentHand, *more: str) -> bytes:
    lines = ["POST /rpc/HEARTBEAT HTTP/1.1", "Host: choir"]
    lines += [f"{name}: {value}" for name, value in agent.headers.items()]
    return "\r\n".join([*lines, *more, "", ""]).encode()


async def test_slow_heads_and_slow_bodies_are_answered_408_while_others_are_served(
    world: World, agent: AgentHand
) -> None:
    async def slow_head() -> int:
        async with Raw(world.settings.http_port) as raw:
            await raw.send(b"POST /rpc/HEARTBEAT HTTP/1.1\r\nHost: choir\r\n")
            return await raw.drip(b"X-A: b\r\n", 0.2)

    async def silent() -> int:
        async with Raw(world.settings.http_port) as raw:
            return await raw.status(HEAD_TIMEOUT_S + 5)

    async def slow_body() -> int:
        async with Raw(world.settings.http_port) as raw:
            await raw.send(head_of(agent, "Content-Length: 100000"))
            return await raw.drip(b"x", 0.2)

    async def honest() -> int:
        for _ in range(20):
            await agent.flush()
            await asyncio.sleep(0.2)
        return 200

    cases = [*(slow_head() for _ in range(20)), *(silent() for _ in range(20))]
    answers = await asyncio.gather(*cases, *(slow_body() for _ in range(20)), honest())
    assert {*answers[:-1]} == {408} and answers[-1] == 200


async def test_endless_heads_are_answered_431_and_cost_no_memory(world: World) -> None:
    before = resident()
    for piece in (b"x" * 65_536, b"X-A: " + b"b" * 1_000 + b"\r\n"):
        for start in (b"GET /livez HTTP/1.1\r\nX-B: ", b"GET /", b"GET /livez HTTP/1.1\r\n"):
            async with Raw(world.settings.http_port) as raw:
                await raw.send(start)
                # the answer may be overtaken by our own sending
                with contextlib.suppress(ConnectionError):
                    assert await raw.drip(piece, 0.001) in (400, 431)
    async with Raw(world.settings.http_port) as raw:
        await raw.send(b"GET /livez HTTP/1.1\r\nX-B: " + b"b" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n")
        assert await raw.status() == 431
    assert resident() - before <= 10 * MIB


async def test_what_is_no_http_is_a_problem_document(world: World) -> None:
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELO choir\r\n\r\n",
        b"\0" * 50,
    ):
        async with Raw(world.settings.http_port) as raw:
            await raw.send(nonsense)
            answer = await raw.answer()
            assert answer.startswith(b"HTTP/1.1 400") and b'"code":"bad_input"' in answer


async def test_endless_bodies_are_answered_413_then_cut_off_and_cost_no_memory(
    world: World, agent: AgentHand
) -> None:
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"

    async def endless() -> int:
        async with Raw(world.settings.http_port) as raw:
            return await raw.pour(head_of(agent, "Transfer-Encoding: chunked"), chunk)

    async def two() -> list[int]:
        return await asyncio.gather(endless(), endless())

    await two()  # what a first time allocates for good
    before = resident()
    assert await two() == [413, 413]
    assert resident() - before <= 10 * MIB


async def test_every_verb_has_a_limit_of_its_own_on_its_body(
    world: World, agent: AgentHand
) -> None:
    for verb in VERBS:
        large = await agent.post(verb, b" " * (VERB_LIMITS[verb].max_body + 1))
        assert (large.status_code, large.json()["code"]) == (413, "too_large"), verb


async def test_too_many_calls_are_answered_429_with_the_time_to_wait_and_heartbeats_go_on(
    world: World, agent: AgentHand
) -> None:
    refused: list[Response] = []
    at_once = VERB_LIMITS["REQUEST_APPROVAL"].at_once
    while not refused:  # one after the other, a busy machine never comes near the limit
        calls = (agent.post("REQUEST_APPROVAL", b"{}") for _ in range(at_once))
        answers = await asyncio.gather(*calls)
        refused = [answer for answer in answers if answer.status_code == 429]
    assert int(refused[0].headers["Retry-After"]) >= 1
    assert refused[0].json()["code"] == "rate_limited"
    await agent.flush()

"""A token that is over, another's or altered opens nothing, at every route and door: row S5."""

import asyncio
import time

import pytest

from choir_common.wire.rpc import VERBS
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

OPEN_TO_ALL = {"/livez", "/readyz", "/metrics"}
DEAD_WITHIN_S = 15.0


async def lease_routes(world: World) -> list[tuple[str, str]]:
    """Return every route a lease token opens; one that belongs to no kind of door fails here."""
    paths = (await world.get("/v1/openapi.json")).json()["paths"]
    found = []
    for path, methods in paths.items():
        if path in OPEN_TO_ALL or path.startswith("/v1/"):
            continue  # the operator's doors: test_doors tries each with a lease token
        assert path.startswith("/rpc/") or path == "/events", f"whose door is {path}?"
        found += [(method.upper(), path) for method in methods]
    assert {path for _, path in found} == {*(f"/rpc/{verb}" for verb in VERBS), "/events"}
    return found


async def refused(
    hand: AgentHand, routes: list[tuple[str, str]], statuses: set[int], **headers: str
) -> None:
    for method, path in routes:
        async with hand.client.stream(
            method, path, headers={**hand.headers, **headers}, content=b"{}"
        ) as answer:
            assert answer.status_code in statuses, (method, path, headers, answer.status_code)


def doors_of(world: World, hand: AgentHand) -> list[AgentHand]:
    return [hand, world.hand(hand.spec, world.endpoint), world.hand(hand.spec, world.tcp)]


async def test_altered_foreign_and_missing_tokens_are_refused_at_every_route_and_door(
    world: World,
) -> None:
    routes = await lease_routes(world)
    main = await world.agent()
    await main.begin()
    # both want the same workspace, so the second agent is one of another
    assert (await world.post("/v1/agents/never/start", json={"dm": "second"})).status_code == 200
    other = await world.agent(starts=2)
    token = main.spec.lease_token
    altered = [
        token[:-1],
        token + "A",
        token.swapcase(),
        "A" + token[1:] if token[0] != "A" else "B" + token[1:],
        token[:20] + ("A" if token[20] != "A" else "B") + token[21:],
        token[::-1],
        other.spec.lease_token,
        "x" * 199,
        "\u0027 OR 1=1 --",
    ]
    for hand in doors_of(world, main):
        for wrong in altered:
            await refused(hand, routes, {401}, Authorization=f"Bearer {wrong}")
            await main.flush()
        await refused(hand, routes, {401}, Authorization="")
        await refused(hand, routes, {401}, Authorization=f"Basic {token}")
        foreign = {"X-Choir-Session-Id": other.spec.session_id}
        await refused(hand, routes, {401}, **foreign)
        await refused(hand, routes, {401}, **{"X-Choir-Session-Id": ""})
    await main.flush()


@pytest.mark.parametrize("end", ["terminated", "crashed"])
async def test_a_token_is_dead_on_every_door_after_the_end_open_streams_too(
    world: World, end: str
) -> None:
    routes = await lease_routes(world)
    hand = await world.agent()
    await hand.begin()
    doors = doors_of(world, hand)
    opened = asyncio.Semaphore(0)

    async def stream_until_cut(door: AgentHand) -> float:
        async with door.client.stream("GET", "/events", headers=door.headers, timeout=60) as answer:
            assert answer.status_code == 200
            async for _ in answer.aiter_raw():
                opened.release()
        return time.monotonic()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        cuts = [tasks.create_task(stream_until_cut(door)) for door in doors]
        for _ in doors:
            await opened.acquire()
        if end == "terminated":
            body = b'{"reason":"done"}'
            assert (await hand.post("TERMINATE_SELF", body)).status_code == 200
        else:
            world.runtime.die("main")
            await world.agent(starts=2)
        ended = time.monotonic()
    assert max(cut.result() for cut in cuts) - ended <= DEAD_WITHIN_S
    for door in doors:
        await refused(door, routes, {401, 409})

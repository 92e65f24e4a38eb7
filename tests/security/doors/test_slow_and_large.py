"""Row S2 for the services beside choird: oversize, slow and endless requests cost neither memory nor time."""

import asyncio
import contextlib

import pytest

from choir_common.http.client import make_client
from choir_common.http.http_protocol import HEAD_TIMEOUT_S, MAX_HEAD_BYTES
from choir_egress.endpoints import MAX_TABLE_BYTES
from tests.security.doors.every_service import SERVICES, Door, running_door
from tests.security.doors.raw import Raw
from tests.support.nightly import nightly_from

MIB = 1 << 20
AT_ONCE = 10
LARGEST_BODY = dict.fromkeys(SERVICES, MIB) | {"egress": MAX_TABLE_BYTES}
# gateway is the only one of them that reads a body of anybody: the others refuse the route
BODY_TOO_LARGE = dict.fromkeys(SERVICES, 405) | {"gateway": 413}
BODY_TOO_SLOW = dict.fromkeys(SERVICES, 405) | {"gateway": 408}
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"


def post(door: Door, *more: str) -> bytes:
    path = "/v1/dms/console/messages" if door.service == "gateway" else "/livez"
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: choir", *more, "", ""]).encode()


async def slow_head(door: Door) -> int:
    async with Raw(door.socket) as raw:
        await raw.send(b"GET /livez HTTP/1.1\r\nHost: choir\r\n")
        return await raw.drip(b"X-A: b\r\n", 0.2)


async def silent(door: Door) -> int:
    async with Raw(door.socket) as raw:
        return await raw.status(HEAD_TIMEOUT_S + 10)


async def slow_body(door: Door) -> int:
    async with Raw(door.socket) as raw:
        await raw.send(post(door, "Content-Length: 100000"))
        return await raw.drip(b"x", 0.2)


async def claimed(door: Door) -> int:
    async with Raw(door.socket) as raw:
        await raw.send(post(door, f"Content-Length: {LARGEST_BODY[door.service] + 1}"))
        return await raw.status()


async def endless_body(door: Door) -> int:
    async with Raw(door.socket) as raw:
        return await raw.pour(post(door, "Transfer-Encoding: chunked"), CHUNK)


async def endless_heads(door: Door) -> None:
    for piece in (b"x" * 65_536, b"X-A: " + b"b" * 1_000 + b"\r\n"):
        for start in (b"GET /livez HTTP/1.1\r\nX-B: ", b"GET /", b"GET /livez HTTP/1.1\r\n"):
            async with Raw(door.socket) as raw:
                await raw.send(start)
                # the answer may be overtaken by our own sending
                with contextlib.suppress(ConnectionError, IndexError):
                    assert await raw.drip(piece, 0.001) in (400, 431)
    async with Raw(door.socket) as raw:
        await raw.send(b"GET /livez HTTP/1.1\r\nX-B: " + b"b" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n")
        assert await raw.status() == 431


async def honest(door: Door, done: asyncio.Event) -> int:
    """Ask again and again, each time soon answered; return how often."""
    count = 0
    async with make_client(door.endpoint, timeout_s=30) as client:
        while not done.is_set():
            assert (await client.get("/livez")).status_code == 200
            count += 1
            await asyncio.sleep(0.1)
    return count


# gateway, which strangers reach; the others have the same server below them
@pytest.mark.parametrize("service", nightly_from(1, sorted(SERVICES, key="gateway".__ne__)))
async def test_slow_large_and_endless_requests_are_refused_while_others_are_served(
    service: str,
) -> None:
    async with running_door(service) as door:
        # what a first time allocates for good
        await endless_body(door)
        before, done = door.resident, asyncio.Event()
        asking = asyncio.create_task(honest(door, done))
        slow = await asyncio.gather(
            *(slow_head(door) for _ in range(AT_ONCE)),
            *(silent(door) for _ in range(AT_ONCE)),
            *(slow_body(door) for _ in range(AT_ONCE)),
        )
        assert {*slow[: 2 * AT_ONCE]} == {408}
        assert {*slow[2 * AT_ONCE :]} == {BODY_TOO_SLOW[service]}
        await endless_heads(door)
        assert await claimed(door) == 413
        poured = await asyncio.gather(*(endless_body(door) for _ in range(2)))
        assert {*poured} == {BODY_TOO_LARGE[service]}
        grown = door.resident - before
        done.set()
        assert await asking > 50
    print(f"{service}: memory grew by {grown / MIB:.1f} MB")
    assert grown <= 10 * MIB

"""The lease of the working gateway at a real control: over its restart, and where its requests go."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from choir_common.clients.control import NatsControlClient
from tests.service.control.world import World
from tests.support.ports import free_port


@contextlib.asynccontextmanager
async def answering(ip: str, port: int) -> AsyncIterator[None]:
    """Serve HTTP that names its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(ip)}\r\nConnection: close\r\n\r\n"
        writer.write((head + ip).encode())
        writer.close()

    async with await asyncio.start_server(answer, ip, port):
        yield


@pytest.fixture
async def port(stopped: World) -> AsyncIterator[int]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    stopped.settings = stopped.settings.model_copy(update={"gateway_endpoint": endpoint})
    async with contextlib.AsyncExitStack() as stack:
        for ip in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            await stack.enter_async_context(answering(ip, port))
        await stopped.start()
        yield port


async def test_a_lease_outlives_control_and_requests_go_to_its_holder(
    stopped: World, port: int
) -> None:
    first = NatsControlClient(stopped.bus, "gw_1", "127.0.0.2")
    second = NatsControlClient(stopped.bus, "gw_2", "127.0.0.3")

    async def asked() -> str:
        return (await stopped.get("/v1/dms/console/messages")).text

    assert await asked() == "127.0.0.1"
    tables = [await first.channels(), await second.channels()]
    assert [table.standby for table in tables] == [False, True]
    assert tables[0].lease_s > 0 and tables[0].gateways
    assert not tables[1].gateways and not tables[1].dms
    assert await asked() == "127.0.0.2"

    await stopped.stop()
    await stopped.start()
    assert (await second.channels()).standby
    assert await asked() == "127.0.0.2"
    assert not (await first.channels()).standby
    await first.leave()
    assert not (await second.channels()).standby
    assert await asked() == "127.0.0.3"

"""The embedded bus against the real nats-server."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import psutil
import pytest

from choir_common.errors import StartupError
from choir_local.nats import EmbeddedNats
from tests.support.bus import BUS_KEY, BUS_USERS, SERVICE_KEYS
from tests.support.home import make_short_directory


@pytest.fixture
def root() -> Iterator[Path]:
    """Make a directory."""
    path = make_short_directory("choir-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def server(root: Path) -> AsyncIterator[EmbeddedNats]:
    """Start a server on a free port."""
    server = EmbeddedNats(root / "nats", root / "nats.log", BUS_USERS)
    await server.start()
    yield server
    await server.stop()


async def test_it_carries_messages_of_its_users(server: EmbeddedNats) -> None:
    client = await nats.connect(server.url, nkeys_seed_str=BUS_KEY)
    inbox = await client.subscribe("hello")
    await client.publish("hello", b"there")
    assert (await inbox.next_msg(5)).data == b"there"
    await client.close()


@pytest.mark.parametrize(
    "user",
    ["", f', "nkey": "{BUS_USERS[0].public_key}", "sig": "AAAA"'],
    ids=["without a key", "with a wrong signature"],
)
async def test_it_refuses_a_client_that_proves_no_users_key(
    server: EmbeddedNats, user: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(f'CONNECT {{"verbose": false{user}}}\r\nPING\r\n'.encode())
    async with asyncio.timeout(60):
        said = await reader.read()  # to the end: the server hangs up
    writer.close()
    await writer.wait_closed()
    assert b"Authorization Violation" in said


async def test_it_listens_on_loopback_only_and_knows_no_private_key(
    server: EmbeddedNats, root: Path
) -> None:
    assert server.pid is not None
    process = psutil.Process(server.pid)
    listening = [c.laddr.ip for c in process.net_connections("tcp") if c.status == "LISTEN"]
    assert set(listening) == {"127.0.0.1"}
    assert (root / "nats" / "nats.conf").stat().st_mode & 0o777 == 0o600
    assert not any(
        key in (root / "nats" / "nats.conf").read_text()
        for key in (BUS_KEY, *SERVICE_KEYS.values())
    )


async def test_it_comes_back_at_the_same_address_after_a_kill(server: EmbeddedNats) -> None:
    url = server.url
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert await server.wait() == -signal.SIGKILL
    await server.start()
    assert server.url == url


async def test_a_port_that_is_taken_is_named_with_its_setting(
    server: EmbeddedNats, root: Path
) -> None:
    port = int(server.url.rpartition(":")[2])
    other = EmbeddedNats(root / "other", root / "other.log", BUS_USERS, port=port)
    with pytest.raises(StartupError, match=rf"{port}.*CHOIR_NATS_PORT"):
        await other.start()


async def test_a_program_that_is_not_there_is_named_with_its_setting(root: Path) -> None:
    server = EmbeddedNats(root / "nats", root / "log", BUS_USERS, program=root / "none")
    with pytest.raises(StartupError, match="CHOIR_NATS_BIN"):
        await server.start()

"""An agent's way to the network: its event loop, and the relay that its commands use."""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
import pytest_asyncio

from choir_agent.egress import proxy_connect
from choir_agent.egress.event_loop import connect_from_thread
from choir_agent.egress.relay import EgressRelay, open_relay
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_common.wire.egress import AgentEgress
from choir_common.wire.rpc import AgentStartParameters
from tests.support.egress import (
    KEY,
    TrapServer,
    boot_parameters,
    running_egress,
    running_remote_egress,
    running_trap,
)
from tests.support.service_process import short_home

T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Place:
    """A server, and the proxy that leads to it."""

    def __init__(self, relay: EgressRelay, trap: TrapServer) -> None:
        self.relay, self.trap = relay, trap

    def children(self, workspace: Path) -> ProgramRunner:
        return ProgramRunner(workspace, "/tmp", egress=self.relay.route)

    async def in_agent(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` as an agent does: in a loop of its own."""

        def run() -> T:
            with asyncio.Runner(loop_factory=self.relay.make_event_loop) as runner:
                return runner.run(work)

        return await asyncio.to_thread(run)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["socket", "port"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """A proxy on this machine, and one that is reached over TLS as by a pod."""
    running = {"socket": running_egress, "port": running_remote_egress}[request.param]
    async with short_home() as home, running_trap() as trap:
        allowed = (f"localhost:{trap.port}",)
        agent = AgentEgress(agent_id="main", key=KEY, own_hosts=allowed, tool_hosts=allowed)
        async with running(home, agent) as egress:
            boot = boot_parameters(egress)
            relay = open_relay(boot)
            assert relay is not None
            async with relay.serving():
                yield Place(relay, trap)


async def test_the_agents_own_clients_connect_through_the_proxy_and_reuse_connections(
    place: Place,
) -> None:
    async def fetch() -> list[str]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            urls = [f"http://localhost:{place.trap.port}/{number}" for number in range(3)]
            return [(await client.get(url)).text for url in urls]

    before = place.trap.connections
    assert await place.in_agent(fetch()) == [f"GET /{number} HTTP/1.1" for number in range(3)]
    assert place.trap.connections - before == 1


async def test_a_refused_host_is_an_error_of_the_connection(place: Place) -> None:
    async def fetch() -> None:
        with pytest.raises(ConnectionRefusedError, match="private, local or reserved"):
            await asyncio.open_connection("127.0.0.1", place.trap.port)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("::1", place.trap.port, ssl=ssl.create_default_context())

    before = place.trap.connections
    await place.in_agent(fetch())
    assert place.trap.connections == before


async def test_a_library_in_a_thread_gets_a_socket_of_the_loop(place: Place) -> None:
    async def fetch() -> bytes:
        loop = asyncio.get_running_loop()

        def ask() -> bytes:
            with connect_from_thread(loop, "localhost", place.trap.port, 5) as way:
                way.sendall(b"GET /thread HTTP/1.1\r\nConnection: close\r\n\r\n")
                return way.makefile("rb").read()

        return await asyncio.to_thread(ask)

    assert (await place.in_agent(fetch())).endswith(b"GET /thread HTTP/1.1")


async def test_a_command_finds_the_proxy_in_its_environment(place: Place, tmp_path: Path) -> None:
    url = f"http://localhost:{place.trap.port}/command"
    code = f"""
import urllib.request, os
del os.environ['NO_PROXY'], os.environ['no_proxy']
print(urllib.request.urlopen('{url}').read().decode())
try:
    urllib.request.urlopen('http://10.0.0.1/')
except OSError as error:
    print(error.code)
"""
    children = place.children(tmp_path)
    out, err = OutputCapture(10_000), OutputCapture(10_000)
    program = Program(
        "call_1",
        [sys.executable, "-I", "-c", code],
        20,
        tool="choir.exec",
    )
    assert await children.run(program, out, err) == 0, err.text()
    assert out.text().splitlines() == ["GET /command HTTP/1.1", "403"]


async def test_ssh_connects_through_the_proxy(place: Place) -> None:
    route = place.relay.route
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", proxy_connect.__file__),
        *("localhost", str(place.trap.port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**route.environment("choir.exec", "call_1")},
    )
    out, _ = await process.communicate(b"GET /ssh HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert process.returncode == 0
    assert out.endswith(b"GET /ssh HTTP/1.1")


@pytest.mark.parametrize("offline", [False, True])
async def test_a_program_without_a_tool_or_network_gets_no_proxy(
    place: Place, tmp_path: Path, offline: bool
) -> None:
    children = place.children(tmp_path)
    out, err = OutputCapture(10_000), OutputCapture(10_000)
    tool = "notes.sync" if offline else ""
    await children.run(Program("call_1", ["/usr/bin/env"], 5, tool=tool, offline=offline), out, err)
    assert "HOME=" in out.text()
    assert "PROXY" not in out.text().upper()


async def test_an_agent_without_a_proxy_has_no_relay() -> None:
    boot = AgentStartParameters(
        agent_id="main",
        session_id="ses_1",
        epoch=1,
        lease_token="t",
        endpoint="unix:///none",
        workspace="/",
        choir_dir="/",
    )
    assert open_relay(boot) is None
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        loop = asyncio.get_running_loop()
        host, port = listener.getsockname()
        (await asyncio.to_thread(connect_from_thread, loop, host, port, 5)).close()

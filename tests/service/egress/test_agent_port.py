"""The port of the egress service for agents in pods: who may connect, and who may say which agents run."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from choir_common.egress.credentials import ProxyIdentity, proxy_password
from choir_common.egress.greeting import greeting
from choir_common.http.client import make_client, ssl_context_for
from choir_common.wire.egress import AgentEgress, EgressTable
from tests.support.egress import (
    KEY,
    EgressProcess,
    TrapServer,
    running_remote_egress,
    running_trap,
)
from tests.support.service_process import short_home

OTHER_KEY = "cd" * 32
WITHIN_S = 60.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Place:
    """The service with two agents, and a server that only `main` may reach."""

    egress: EgressProcess
    trap: TrapServer

    def agents(self) -> tuple[AgentEgress, ...]:
        own = (f"localhost:{self.trap.port}",)
        main = AgentEgress(agent_id="main", key=KEY, own_hosts=own)
        return main, AgentEgress(agent_id="other", key=OTHER_KEY)

    async def ask(self, first: bytes, key: str = KEY, *, tls: bool = True) -> bytes:
        """Open a tunnel as an agent does, after `first`; return all that is answered."""
        host, _, port = self.egress.address.partition(":")
        context = ssl_context_for(self.egress.service.certificate) if tls else None
        password = proxy_password(key, ProxyIdentity())
        token = base64.b64encode(f"{ProxyIdentity().name}:{password}".encode()).decode()
        target = f"CONNECT localhost:{self.trap.port} HTTP/1.1\r\n"
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            head = f"{target}Proxy-Authorization: Basic {token}\r\n\r\n"
            writer.write(first + head.encode())
            try:
                return await reader.read(12)
            except ConnectionError:
                return b""
            finally:
                writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with short_home() as home, running_trap() as trap, running_remote_egress(home) as egress:
        yield Place(egress, trap)


async def test_an_agent_with_its_key_reaches_its_servers_until_it_is_removed(place: Place) -> None:
    await place.egress.put(*place.agents())
    assert await place.ask(greeting("main", KEY)) == b"HTTP/1.1 200"
    await place.egress.put()
    assert await place.ask(greeting("main", KEY)) == b""


@pytest.mark.parametrize(
    ("first", "tls"),
    [
        (greeting("main", OTHER_KEY), True),
        (greeting("nobody", KEY), True),
        (greeting("main", KEY)[:-2] + b"\n", True),
        (b"main \n", True),
        (b"x" * 300 + b"\n", True),
        (b"\xff\xfe \n", True),
        (b"", True),
        (greeting("main", KEY), False),
    ],
    ids=["wrong key", "unknown", "cut", "empty proof", "long", "no name", "none", "without TLS"],
)
async def test_a_connection_without_proof_gets_no_byte(
    place: Place, first: bytes, tls: bool
) -> None:
    await place.egress.put(*place.agents())
    before = place.trap.connections
    assert await place.ask(first, tls=tls) == b""
    assert place.trap.connections == before


async def test_an_agent_gets_its_own_rules_and_not_anothers(place: Place) -> None:
    await place.egress.put(*place.agents())
    # by its own greeting, with the password of the other agent, and with its own
    assert await place.ask(greeting("other", OTHER_KEY), KEY) == b"HTTP/1.1 407"
    assert await place.ask(greeting("other", OTHER_KEY), OTHER_KEY) == b"HTTP/1.1 403"


@pytest.mark.parametrize("token", ["", "Bearer wrong"])
async def test_only_control_says_which_agents_run(place: Place, token: str) -> None:
    await place.egress.put(*place.agents())
    service = place.egress.service
    headers = {"Authorization": token} if token else None
    async with make_client(service.endpoint, headers=headers, ca_pem=service.certificate) as client:
        answer = await client.put("/v1/agents", content=EgressTable(agents=()).model_dump_json())
    assert answer.status_code == 401
    assert await place.ask(greeting("main", KEY)) == b"HTTP/1.1 200"

"""The egress service as a process: who may connect, and to what."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from choir_common.egress.credentials import ProxyIdentity, proxy_password
from choir_common.http.client import make_client
from choir_common.wire.connections import CallConnections
from choir_common.wire.egress import CALLS_PATH, AgentEgress, EgressTable
from choir_common.wire.policy import PolicyRule
from tests.support.egress import KEY, EgressProcess, TrapServer, running_egress, running_trap
from tests.support.ports import free_port
from tests.support.service_process import short_home

COMMAND = ProxyIdentity("choir.exec", "call_1")


@dataclass
class Place:
    """The service, and a server that one agent may reach."""

    egress: EgressProcess
    trap: TrapServer

    def agent(self, **more: object) -> AgentEgress:
        allowed = (f"localhost:{self.trap.port}",)
        return AgentEgress(agent_id="main", key=KEY, **{"tool_hosts": allowed, **more})  # type: ignore[arg-type]

    async def ask(self, request: str, user: ProxyIdentity = COMMAND, password: str = "") -> str:
        """Send a proxy request as a user of the agent; return all that is answered."""
        secret = password or proxy_password(KEY, user)
        token = base64.b64encode(f"{user.name}:{secret}".encode()).decode()
        head = f"{request} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n\r\n"
        return await self.send(head, has_ended=request.startswith("CONNECT"))

    async def send(self, text: str, *, has_ended: bool = True) -> str:
        reader, writer = await asyncio.open_unix_connection(self.egress.proxy_socket())
        writer.write(text.encode())
        if has_ended:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with short_home() as home, running_trap() as trap, running_egress(home) as egress:
        yield Place(egress, trap)


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_command_reaches_an_allowed_host_by_http_and_by_tunnel(place: Place) -> None:
    await place.egress.put(place.agent())
    url = f"http://localhost:{place.trap.port}/page?x=1"
    assert "GET /page?x=1 HTTP/1.1" in await place.ask(f"GET {url}")
    assert "Proxy-Authorization" not in place.trap.heads[-1]
    tunnel = await place.ask(f"CONNECT localhost:{place.trap.port}")
    assert tunnel.startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "169.254.169.254",
        "192.0.0.8",
        "[3fff::1]",
        "[2606:4700::5efe:10.0.0.1]",
        "0",
    ],
)
async def test_private_and_metadata_addresses_are_refused(place: Place, host: str) -> None:
    await place.egress.put(place.agent())
    before = place.trap.connections
    assert "403 Forbidden" in await place.ask(f"CONNECT {host}:{place.trap.port}")
    assert place.trap.connections == before


async def test_a_missing_or_wrong_password_opens_nothing(place: Place) -> None:
    await place.egress.put(place.agent())
    before = place.trap.connections
    target = f"CONNECT localhost:{place.trap.port}"
    assert "407 " in await place.send(f"{target} HTTP/1.1\r\n\r\n")
    assert "407 " in await place.ask(target, password="0" * 64)
    # a command's own password does not make it the agent, or another tool
    own = proxy_password(KEY, COMMAND)
    assert "407 " in await place.ask(target, ProxyIdentity(), password=own)
    assert "407 " in await place.ask(target, ProxyIdentity("notes.sync", "call_1"), password=own)
    assert place.trap.connections == before


async def test_servers_of_the_agents_settings_are_for_the_agent_and_not_for_its_commands(
    place: Place,
) -> None:
    settings = (f"localhost:{place.trap.port}",)
    await place.egress.put(place.agent(tool_hosts=(), own_hosts=settings))
    target = f"CONNECT localhost:{place.trap.port}"
    assert "200 " in await place.ask(target, ProxyIdentity())
    assert "403 Forbidden" in await place.ask(target)


async def test_a_rule_of_the_policy_decides_on_each_connection_of_a_tool(place: Place) -> None:
    rules = (
        PolicyRule(action="allow", tools=("choir.exec",), hosts=("localhost",)),
        PolicyRule(action="deny", hosts=("*",), why="only known hosts"),
    )
    await place.egress.put(place.agent(rules=rules))
    target = f"CONNECT LocalHost:{place.trap.port}"
    assert "200 " in await place.ask(target)
    refusal = await place.ask(target, ProxyIdentity("notes.sync", "call_2"))
    assert "403 Forbidden" in refusal
    assert "only known hosts" in refusal


# a name for loopback that no rule or setting has
NEW = "127.1"


def reaching_loopback(place: Place, **more: object) -> AgentEgress:
    return place.agent(tool_hosts=(f"127.0.0.1:{place.trap.port}",), **more)


async def test_a_new_host_is_refused_before_it_is_resolved_and_the_reason_is_answered(
    place: Place,
) -> None:
    await place.egress.put(reaching_loopback(place))
    before = place.trap.connections
    for target in (f"CONNECT {NEW}:{place.trap.port}", "CONNECT no-such-name.invalid:443"):
        refusal = await place.ask(target)
        assert "403 Forbidden" in refusal and "a person must agree first" in refusal
    assert place.trap.connections == before


async def test_a_host_is_reached_that_the_agent_vouches_for_or_control_knows(place: Place) -> None:
    await place.egress.put(reaching_loopback(place))
    target = f"CONNECT {NEW}:{place.trap.port}"
    agreed = ProxyIdentity("choir.exec", "call_1", ("a.example", NEW))
    assert "200 " in await place.ask(target, agreed)
    assert "403 " in await place.ask(target, ProxyIdentity("choir.exec", "call_1", ("a.example",)))
    await place.egress.put(reaching_loopback(place, known_hosts=("127.*",)))
    assert "200 " in await place.ask(target)


async def test_a_tool_reaches_the_hosts_of_its_manifest_only_unless_a_rule_denies_them(
    place: Place,
) -> None:
    await place.egress.put(reaching_loopback(place, known_hosts=("known.example",)))
    tool = ProxyIdentity("notes.sync", "call_1", ("127.*",), is_limited=True)
    assert "200 " in await place.ask(f"CONNECT {NEW}:{place.trap.port}", tool)
    for host in ("known.example", "localhost"):
        refusal = await place.ask(f"CONNECT {host}:{place.trap.port}", tool)
        assert "403 Forbidden" in refusal and "manifest of notes.sync" in refusal
    rules = (PolicyRule(action="deny", tools=("notes.*",), hosts=("127.*",), why="not now"),)
    await place.egress.put(reaching_loopback(place, rules=rules))
    assert "not now" in await place.ask(f"CONNECT {NEW}:{place.trap.port}", tool)


async def test_the_agent_takes_the_connections_of_a_call_once_and_a_command_cannot(
    place: Place,
) -> None:
    await place.egress.put(place.agent())
    user = ProxyIdentity("choir.exec", "call_sum")
    for _ in range(3):
        await place.ask(f"GET http://localhost:{place.trap.port}/", user)
    await place.ask("CONNECT new.example:443", user)
    await place.ask("CONNECT 127.0.0.1:1", user)
    path = f"GET {CALLS_PATH}call_sum"
    assert "call_sum" not in await place.ask(path, user)
    answer = await place.ask(path, ProxyIdentity())
    connections = CallConnections.model_validate_json(answer.partition("\r\n\r\n")[2]).hosts
    assert [(c.host, c.decision, c.connections) for c in connections] == [
        ("localhost", "allowed", 3),
        ("new.example", "new_host", 1),
        ("127.0.0.1", "refused", 1),
    ]
    assert connections[0].bytes_up > 100 and connections[0].bytes_down > 0
    assert '"hosts":[]' in await place.ask(path, ProxyIdentity())


async def test_each_connection_is_logged_with_its_call_and_bytes(place: Place) -> None:
    await place.egress.put(place.agent())
    user = ProxyIdentity("choir.exec", "call_log")
    await place.ask(f"GET http://localhost:{place.trap.port}/", user)
    await place.ask("CONNECT 127.0.0.1:1", user)
    log = [json.loads(line) for line in place.egress.service.log.splitlines()]
    mine = [line for line in log if line.get("call_id") == "call_log"]
    facts = [(line["decision"], line["host"], line["bytes_down"] > 0) for line in mine]
    assert facts == [("allowed", "localhost", True), ("refused", "127.0.0.1", False)]
    assert KEY not in place.egress.service.log


async def test_an_agent_that_control_no_longer_names_has_no_access(place: Place) -> None:
    await place.egress.put(place.agent())
    assert place.egress.proxy_socket().exists()
    await place.egress.put()
    assert not place.egress.proxy_socket().exists()


async def test_the_health_port_takes_no_agents() -> None:
    port = free_port()
    async with (
        short_home() as home,
        running_egress(home, health_port=port),
        make_client(f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.get("/livez")).status_code == 200
        assert "choir" in (await client.get("/metrics")).text
        refused = await client.put("/v1/agents", content=EgressTable(agents=()).model_dump_json())
        assert refused.status_code in (404, 413)

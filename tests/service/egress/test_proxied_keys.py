"""Keys that the egress proxy adds: who gets them, where they go, and what comes back."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from choir_common.egress.credentials import ProxyIdentity, basic_authorization
from choir_common.egress.key_placeholders import key_placeholder
from choir_common.wire.connections import CallConnections
from choir_common.wire.egress import CALLS_PATH, AgentEgress, ProxiedKey
from tests.support.egress import KEY, EgressProcess, TrapServer, running_egress, running_trap
from tests.support.keyed_server import KeyedServer, running_keyed_server
from tests.support.service_process import short_home

SECRET = "sk-canary+/=0123456789"
PLACEHOLDER = key_placeholder(KEY, "model-key")
GIT_SECRET = "ghp_canary0123456789"
GIT_PLACEHOLDER = key_placeholder(KEY, "git-token")
COMMAND = ProxyIdentity("choir.exec", "call_1")
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Place:
    """The service, the server of the keys, and a server that gets none."""

    egress: EgressProcess
    server: KeyedServer
    trap: TrapServer

    async def serve_agent(self, secret: str = SECRET) -> None:
        """Send the table with an agent that has a model's key and a git token."""
        allowed = (f"localhost:{self.server.port}", f"localhost:{self.trap.port}")
        servers = (self.server.origin,)
        keys = (
            ProxiedKey(placeholder=PLACEHOLDER, value=secret, servers=servers),
            ProxiedKey(
                placeholder=GIT_PLACEHOLDER,
                value=GIT_SECRET,
                servers=servers,
                tools=("choir.exec",),
            ),
        )
        agents = [
            AgentEgress(
                agent_id="main",
                key=KEY,
                own_hosts=allowed,
                tool_hosts=allowed,
                proxied_keys=keys,
            ),
            AgentEgress(agent_id="other", key="cd" * 32, own_hosts=allowed),
        ]
        assert (await self.egress.put(*agents)).is_success

    async def ask(
        self,
        path: str,
        *fields: str,
        method: str = "GET",
        user: ProxyIdentity | None = None,
        url: str = "",
        body: str = "",
        agent: str = "main",
        key: str = KEY,
    ) -> str:
        """Send a proxy request of the agent itself, or of `user`; return all that is answered."""
        target = f"{url or self.server.proxied_url}{path}"
        host = target.split("/")[2]
        hosts = [] if any(line.lower().startswith("host") for line in fields) else [f"Host: {host}"]
        lines = [
            f"{method} {target} HTTP/1.1",
            f"Proxy-Authorization: {basic_authorization(key, user or ProxyIdentity())}",
            *hosts,
            *fields,
        ]
        return await self.send("\r\n".join([*lines, "", body]), agent)

    async def send(self, text: str, agent: str = "main") -> str:
        reader, writer = await asyncio.open_unix_connection(self.egress.proxy_socket(agent))
        writer.write(text.encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    root: Path = tmp_path_factory.mktemp("tls")
    async with (
        short_home() as home,
        running_trap() as trap,
        running_keyed_server(root) as server,
        running_egress(home, trusted=server.certificate) as egress,
    ):
        running = Place(egress, server, trap)
        await running.serve_agent()
        yield running


@pytest.mark.parametrize(
    ("name", "value", "arrives"),
    [
        ("Authorization", f"Bearer {PLACEHOLDER}", f"Bearer {SECRET}"),
        ("X-Api-Key", PLACEHOLDER, SECRET),
        ("X-Goog-Api-Key", PLACEHOLDER, SECRET),
        ("xi-api-key", PLACEHOLDER, SECRET),
        ("X-Subscription-Token", PLACEHOLDER, SECRET),
    ],
)
async def test_the_key_reaches_its_server_over_tls_in_each_header(
    place: Place, name: str, value: str, arrives: str
) -> None:
    answer = await place.ask(
        "/v1/chat?x=1", f"{name}: {value}", "X-Other: kept", "Accept-Encoding: gzip"
    )
    assert answer.startswith("HTTP/1.1 200 ") and "done" in answer
    request = place.server.requests[-1]
    assert request[name.lower()] == arrives
    assert request[":target"] == "/v1/chat?x=1"
    assert request["host"] == f"localhost:{place.server.port}"
    assert request["x-other"] == "kept"
    assert request["accept-encoding"] == "identity"
    assert "proxy-authorization" not in request


async def test_other_credentials_of_the_agent_are_removed(place: Place) -> None:
    await place.ask("/", f"X-Api-Key: {PLACEHOLDER}", "Authorization: Bearer of-somebody-else")
    request = place.server.requests[-1]
    assert request["x-api-key"] == SECRET
    assert "authorization" not in request


async def test_a_command_uses_the_git_token_and_never_the_models_key(place: Place) -> None:
    basic = base64.b64encode(f"x-access-token:{GIT_PLACEHOLDER}".encode()).decode()
    await place.ask("/repo.git", f"Authorization: Basic {basic}", user=COMMAND)
    expected = base64.b64encode(f"x-access-token:{GIT_SECRET}".encode()).decode()
    assert place.server.requests[-1]["authorization"] == f"Basic {expected}"
    before = len(place.server.requests)
    tool = ProxyIdentity("notes.sync", "call_2")
    header = f"Authorization: Bearer {PLACEHOLDER}"
    assert "403 Forbidden" in await place.ask("/", header, user=COMMAND)
    assert "403 Forbidden" in await place.ask("/", f"Authorization: Basic {basic}", user=tool)
    assert len(place.server.requests) == before


async def test_another_server_port_or_agent_gets_no_key(place: Place) -> None:
    requests, connections = len(place.server.requests), place.trap.connections
    header = f"Authorization: Bearer {PLACEHOLDER}"
    trap = f"http://localhost:{place.trap.port}"
    assert "403 Forbidden" in await place.ask("/", header, url=trap)
    address = f"http://127.0.0.1:{place.server.port}"
    assert "403 Forbidden" in await place.ask("/", header, url=address)
    other = await place.ask("/", header, agent="other", key="cd" * 32)
    assert "403 Forbidden" in other
    assert "not a server of this key" in other
    assert (len(place.server.requests), place.trap.connections) == (requests, connections)


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (("Host: example.invalid",), ""),
        (("Host: localhost:{port}", "Host: example.invalid"), ""),
        (("Authorization: Bearer {key}",), ""),
        (("Authorization: Bearer other", "X-Leak: {key}"), ""),
        ((" X-Folded: 1",), ""),
        (("X-Fold: 1", " folded: 2"), ""),
        (("Content-Length: 4", "Content-Length: 5"), "four"),
        (("Content-Length: 4", "Transfer-Encoding: gzip"), "four"),
        (("Transfer-Encoding: chunked, identity",), "0\r\n\r\n"),
        (("Content-Length: +4",), "four"),
        (("X-Line: a\nAuthorization: Bearer {key}",), ""),
        (("X Space: 1",), ""),
    ],
)
async def test_an_ambiguous_request_is_refused(
    place: Place, fields: tuple[str, ...], body: str
) -> None:
    before = len(place.server.requests)
    filled = [line.format(key=PLACEHOLDER, port=place.server.port) for line in fields]
    method = "POST" if body else "GET"
    header = f"Authorization: Bearer {PLACEHOLDER}"
    answer = await place.ask("/", header, *filled, method=method, body=body)
    assert not answer or answer.split(" ")[1] in ("400", "403"), answer
    assert len(place.server.requests) == before


async def test_a_second_request_behind_the_first_is_not_sent(place: Place) -> None:
    before = len(place.server.requests)
    header = f"Authorization: Bearer {PLACEHOLDER}"
    hidden = f"GET /hidden HTTP/1.1\r\nHost: localhost:{place.server.port}\r\n\r\n"
    length = ("Content-Length: 4", "Transfer-Encoding: chunked")
    for framing, body in ((length[0], "four"), (length[1], "4\r\nfour\r\n0\r\n\r\n")):
        answer = await place.ask("/", header, framing, method="POST", body=body + hidden)
        assert "200 " in answer
        assert place.server.requests[-1][":body"] == "four"
    assert len(place.server.requests) == before + 2


async def test_a_response_that_repeats_the_key_is_masked(place: Place) -> None:
    answer = await place.ask("/echo", f"Authorization: Bearer {PLACEHOLDER}")
    assert "400 " in answer and "[redacted]" in answer and "end" in answer
    basic = base64.b64encode(f"user:{GIT_PLACEHOLDER}".encode()).decode()
    answer += await place.ask("/echo", f"Authorization: Basic {basic}", user=COMMAND)
    for secret in (SECRET, GIT_SECRET):
        sent = [f"Bearer {secret}", f"user:{secret}", secret]
        coded = [base64.b64encode(text.encode()).decode().rstrip("=") for text in sent]
        assert not [text for text in (*sent, *coded) if text in answer], answer
    assert "forged" not in answer


async def test_a_compressed_response_is_refused(place: Place) -> None:
    answer = await place.ask("/compressed", f"Authorization: Bearer {PLACEHOLDER}")
    assert "502 " in answer and "compressed" in answer


async def test_a_redirect_is_returned_and_not_followed(place: Place) -> None:
    before = len(place.server.requests)
    header = f"Authorization: Bearer {PLACEHOLDER}"
    away = await place.ask("/away", header)
    assert "302 " in away and "https://example.invalid/taken" in away
    moved = await place.ask("/moved", header)
    assert f"location: {place.server.proxied_url}/new" in moved.lower()
    assert len(place.server.requests) == before + 2


async def test_a_stream_passes_at_once_and_ends_with_its_client(place: Place) -> None:
    head = (
        f"POST {place.server.proxied_url}/stream HTTP/1.1\r\nHost: localhost:{place.server.port}\r\n"
        f"Proxy-Authorization: {basic_authorization(KEY, ProxyIdentity())}\r\n"
        f"X-Api-Key: {PLACEHOLDER}\r\nContent-Length: 0\r\n\r\n"
    )
    place.server.left.clear()
    reader, writer = await asyncio.open_unix_connection(place.egress.proxy_socket())
    writer.write(head.encode())
    await asyncio.wait_for(reader.readuntil(b"data: first\n\n"), 10)
    writer.close()
    await asyncio.wait_for(place.server.left.wait(), 10)


async def test_connections_to_the_server_are_reused(place: Place) -> None:
    header = f"Authorization: Bearer {PLACEHOLDER}"
    await place.ask("/", header)
    before = place.server.connections
    for _ in range(3):
        assert "200 " in await place.ask("/", header)
    assert place.server.connections == before


async def test_a_new_value_is_used_by_the_next_request(place: Place) -> None:
    header = f"X-Api-Key: {PLACEHOLDER}"
    await place.serve_agent("sk-second-0123456789")
    await place.ask("/", header)
    assert place.server.requests[-1]["x-api-key"] == "sk-second-0123456789"
    await place.serve_agent()
    await place.ask("/", header)
    assert place.server.requests[-1]["x-api-key"] == SECRET


async def test_a_certificate_that_is_not_trusted_gets_no_key(tmp_path: Path, place: Place) -> None:
    async with running_keyed_server(tmp_path) as stranger:
        key = ProxiedKey(placeholder=PLACEHOLDER, value=SECRET, servers=(stranger.origin,))
        agent = AgentEgress(agent_id="main", key=KEY, proxied_keys=(key,))
        await place.egress.put(agent)
        answer = await place.ask("/", f"X-Api-Key: {PLACEHOLDER}", url=stranger.proxied_url)
        assert "502 " in answer and "CERTIFICATE_VERIFY_FAILED" in answer
        assert stranger.requests == []
    await place.serve_agent()


async def test_a_request_that_fails_after_its_check_is_counted_once_with_the_reason(
    place: Place,
) -> None:
    user = ProxyIdentity("choir.exec", "call_failed")
    header = f"X-Api-Key: {GIT_PLACEHOLDER}"
    assert "200 " in await place.ask("/", header, user=user)
    assert "502 " in await place.ask("/compressed", header, user=user)
    assert "403 " in await place.ask("/", header, "Host: example.invalid", user=user)
    answer = await place.send(
        f"GET {CALLS_PATH}call_failed HTTP/1.1\r\n"
        f"Proxy-Authorization: {basic_authorization(KEY, ProxyIdentity())}\r\n\r\n"
    )
    hosts = CallConnections.model_validate_json(answer.partition("\r\n\r\n")[2]).hosts
    assert [(c.decision, c.connections) for c in hosts] == [
        ("allowed", 1),
        ("failed", 1),
        ("refused", 1),
    ]
    assert hosts[0].bytes_down > 0
    log = [line for line in place.egress.service.log.splitlines() if "call_failed" in line]
    assert [json.loads(line)["decision"] for line in log] == ["allowed", "failed", "refused"]


async def test_keys_are_in_no_log(place: Place) -> None:
    await place.ask("/echo", f"Authorization: Bearer {PLACEHOLDER}")
    assert "egress" in place.egress.service.log
    assert SECRET not in place.egress.service.log
    assert GIT_SECRET not in place.egress.service.log

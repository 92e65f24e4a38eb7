"""Who may come in, and what bad input does: GUARANTEES 10, rows S1, S2 and S5."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from choir_common.http.client import make_client
from choir_common.wire.rpc import VERBS
from choir_control.api.operator.authentication import ProcessTree
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import MODEL_KEY, OPERATOR_TOKEN, World
from tests.support.postgres import PASSWORD

ASK = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: choir\\r\\nConnection: close\\r\\n\\r\\n")
answer = b""
while piece := sock.recv(65536):
    answer += piece
print(answer.split()[1].decode())
"""


@pytest.fixture
async def agent(world: World) -> AgentHand:
    hand = await world.agent()
    await hand.begin()
    return hand


async def operator_routes(world: World) -> list[tuple[str, str]]:
    schema = (await world.get("/v1/openapi.json")).json()
    return [
        (method.upper(), path)
        for path, methods in schema["paths"].items()
        for method in methods
        if path.startswith("/v1")
    ]


async def test_every_operator_route_over_tcp_needs_the_operator_token(
    world: World, agent: AgentHand
) -> None:
    routes = await operator_routes(world)
    assert len(routes) >= 14
    async with make_client(world.tcp) as client:
        for method, path in [*routes, ("GET", "/v1/openapi.json")]:
            url = path.replace("{agent_id}", "main").replace("{dm}", "console")
            url = url.replace("{session_id}", agent.spec.session_id)
            wrong = (None, "Bearer wrong", f"Bearer {agent.spec.lease_token}", OPERATOR_TOKEN)
            for given in wrong:
                headers = {"Authorization": given} if given else {}
                answer = await client.request(method, url, headers=headers)
                # the sign-in of browsers is for the web page only, which sends its origin
                refused = 403 if (method, path) == ("POST", "/v1/web/session") else 401
                assert answer.status_code == refused, (method, path, given)
        good = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        assert (await client.get("/v1/status", headers=good)).status_code == 200


async def test_over_tcp_nobody_passes_for_a_peer_of_the_socket_by_a_header(world: World) -> None:
    async with make_client(world.tcp) as client:
        for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP"):
            for claim in ("unix", "unix:0", "for=unix", "127.0.0.1, unix"):
                answer = await client.get("/v1/status", headers={name: claim})
                assert answer.status_code == 401, (name, claim)


async def test_without_an_operator_token_nobody_comes_in_over_tcp(world: World) -> None:
    await world.stop()
    world.secrets = world.secrets.model_copy(update={"operator_token": None})
    await world.start()
    async with make_client(world.tcp) as client:
        for token in ("", "Bearer", "Bearer None"):
            answer = await client.get("/v1/status", headers={"Authorization": token})
            assert answer.status_code == 401
    assert (await world.get("/v1/status")).status_code == 200


async def test_an_agents_own_socket_has_no_operator_api(world: World, agent: AgentHand) -> None:
    for method, path in [*(await operator_routes(world)), ("GET", "/v1/openapi.json")]:
        token = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        answer = await agent.client.request(method, path, headers=token)
        assert answer.status_code == 404, (method, path)


async def test_a_process_below_control_may_not_use_the_operator_socket(world: World) -> None:
    # control runs inside this process: our child is what an agent's tool would be
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ASK, str(world.settings.control_socket)), stdout=subprocess.PIPE
    )
    answer, _ = await asyncio.wait_for(asking.communicate(), 60)
    assert answer.strip() == b"403"


def test_descent_is_told_from_the_process_table() -> None:
    assert not ProcessTree().is_descendant(os.getpid())
    assert not ProcessTree().is_descendant(os.getppid())
    assert not ProcessTree().is_descendant(1)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert ProcessTree().is_descendant(child.pid)
    child.communicate(b"\n")
    assert ProcessTree().is_descendant(2**22)


async def test_sockets_are_for_their_owner_alone(world: World) -> None:
    for path in (
        world.settings.control_socket,
        world.settings.agent_socket_dir("main") / "choir.sock",
    ):
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_mode & 0o777 == 0o600


BODIES = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"a":',
    b"\xff\xfe",
    b'{"x": "\\ud800"}',
    b"1" * 400,
    b"[" * 5000,
    b'{"a":' * 5000,
    b'{"reason": "\\u0000"}',
    b'{"reason": 7}',
    b'{"resources": ["\\u0000"]}',
    b'{"tool_name": "choir.memory.query", "call_id": "\\u0000", "input": {}}',
    b'{"tool_name": "\\u0000", "call_id": "c", "input": {"n": 1e400}}',
    b'{"current_config_version": 99999999999999999999999999}',
    b'{"request_type": "tool", "call_id": "\\u0000", "payload": {}}',
    b'{"request_type": "tool", "call_id": "c", "payload": {"n": 123456789012345678901234567890}}',
    b'{"request_type": "tool", "call_id": "c", "payload": {"t": "\\u0000"}}',
    b'{"lane": "edge", "state": "x", "budget_remaining": {"n": 99999999999999999999999999}}',
    b'{"agent_id":"main","epoch":1,"base_rev":99999999999999999999,"new_rev":99999999999999999999,'
    b'"config_version":1,"hash_prev":"a","hash_new":"a","timestamp":""}',
    b'{"agent_id":"main","epoch":1,"base_rev":0,"new_rev":0,"config_version":1,'
    b'"hash_prev":"\\u0000","hash_new":"\\u0000","timestamp":""}',
    b'{"agent_id":"main","epoch":1,"base_rev":-1,"new_rev":0,"config_version":1,'
    b'"hash_prev":"a","hash_new":"a","timestamp":""}',
]


async def test_malformed_bodies_are_never_a_failure_of_ours(
    world: World, agent: AgentHand, subtests: pytest.Subtests
) -> None:
    deep = json.dumps({"request_type": "tool", "call_id": "deep", "payload": _nested(200)})
    for verb in [verb for verb in VERBS if verb != "TERMINATE_SELF"]:
        with subtests.test(verb):
            for body in BODIES:
                answer = await agent.post(verb, body)
                assert answer.status_code < 500, (verb, body[:80], answer.text)
                assert "Traceback" not in answer.text and MODEL_KEY not in answer.text
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert answer.json()["code"]
            assert (await agent.post("REQUEST_APPROVAL", deep.encode())).status_code < 500
            await agent.flush()
            assert (await world.verify(agent.spec.session_id))["ok"]


def _nested(depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


async def test_hostile_event_envelopes_are_refused_and_change_nothing(
    world: World, agent: AgentHand
) -> None:
    event = agent.say("hello")
    changes: list[dict[str, object]] = [
        {"lane": "\x00"},
        {"lane": "control"},
        {"at": "yesterday"},
        {"at": "\x00"},
        {"type": "\x00"},
        {"session_id": "ses_other"},
        {"rev": 2**70},
        {"payload": {"kind": "answer"}},
        {"payload": {**event.payload, "n": 2**70}},
    ]
    for change in changes:
        forged = event.model_copy(update=change)
        request = agent.heartbeat([forged]).model_copy(update={"hash_new": forged.hash})
        request = request.model_copy(update={"new_rev": agent.acked.rev + 1})
        answer = await agent.post("HEARTBEAT", request.model_dump_json().encode())
        assert answer.status_code in (400, 409), (change, answer.text)
    await agent.flush()
    assert (await world.verify(agent.spec.session_id))["events"] == 2


async def test_an_oversize_body_is_refused_by_length_and_by_count(
    world: World, agent: AgentHand
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    big = await agent.post("HEARTBEAT", b"x" * 4_000_001)
    assert (big.status_code, big.json()["code"]) == (413, "too_large")
    counted = await agent.client.post("/rpc/HEARTBEAT", content=endless(), headers=agent.headers)
    assert counted.status_code == 413


async def test_bad_queries_and_ids_are_answered_as_such(world: World, agent: AgentHand) -> None:
    session = agent.spec.session_id
    for path, status in (
        ("/v1/sessions/%00", 404),
        ("/v1/sessions/ses_none", 404),
        (f"/v1/sessions/{'x' * 3000}", 404),
        (f"/v1/sessions/{session}/events?after=-1", 400),
        (f"/v1/sessions/{session}/events?after=99999999999999999999999", 400),
        (f"/v1/sessions/{session}/events?limit=0", 400),
        ("/v1/sessions?cursor=%00", 200),
        ("/v1/sessions?agent_id=%27%3BDROP%20TABLE", 200),
        ("/v1/agents/%00", 404),
        ("/v1/dms/%2e%2e%2fetc/messages", 404),
        ("/v1/dms/a%20b/events", 400),
        ("/v1/nothing", 404),
    ):
        answer = await world.get(path)
        assert answer.status_code == status, (path, answer.text)
        if status >= 400:
            assert answer.json()["code"]
    more = {"Last-Event-ID": "x"}
    assert (await agent.client.get("/events", headers={**agent.headers, **more})).status_code == 400
    assert (await agent.client.delete("/rpc/HEARTBEAT", headers=agent.headers)).status_code == 405


async def test_no_secret_is_in_what_control_shows_or_says(
    world: World, agent: AgentHand, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = (MODEL_KEY, OPERATOR_TOKEN, PASSWORD, agent.spec.lease_token)
    shown = [
        (await world.get(path)).text
        for path in ("/v1/status", "/v1/agents", "/v1/sessions", "/v1/dms", "/v1/openapi.json")
    ]
    assert world.control is not None
    said = repr(world.control) + repr(world.secrets) + "".join(capfd.readouterr())
    for secret in secrets:
        assert all(secret not in text for text in (*shown, said))

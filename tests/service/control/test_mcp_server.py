"""The MCP server of an agent, with the official SDK's client over streamable HTTP and stdio."""

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.http.client import make_client
from choir_common.wire.memory_search import EnsureSpace, MemoryHit, MemoryHits, MemoryQuery
from choir_common.wire.messages import Empty
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.api_clients import service as clients
from choir_control.api_clients.service import MAX_OPEN
from tests.service.control.openai_world import OpenAIWorld, openai_world
from tests.service.control.world import World, until
from tests.support.shell import ChoirctlRunner

DOCS = Path(__file__).parents[3] / "docs/mcp-server.md"
CHOIRCTL = Path(sys.executable).parent / "choirctl"
ALL = ["chat", "jobs", "memory", "approvals"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def api(stopped: World) -> AsyncIterator[OpenAIWorld]:
    file = stopped.settings.config_file
    server = {"command": ["weather-server"], "agents": ["main"]}
    config = {**json.loads(file.read_text()), "mcp": {"servers": {"weather": server}}}
    file.write_text(json.dumps(config))
    async with openai_world(stopped) as made:
        yield made


@contextlib.asynccontextmanager
async def connected(
    api: OpenAIWorld, token: str, agent: str = "main", mode: Any = "auto", **headers: str
) -> AsyncIterator[Client]:
    """The official client, connected to an agent."""
    own = {"Authorization": f"Bearer {token}", **headers}
    async with make_client(api.world.tcp, headers=own, timeout_s=300) as http:
        transport = streamable_http_client(f"{api.world.tcp}/mcp/{agent}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def post(
    api: OpenAIWorld, token: str, body: Any = PING, agent: str = "main", **headers: str
) -> httpx2.Response:
    """Send a request as it is."""
    own = {**ACCEPT, "Content-Type": "application/json", **headers}
    if token:
        own["Authorization"] = f"Bearer {token}"
    async with make_client(api.world.tcp, timeout_s=120) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(f"/mcp/{agent}", content=content, headers=own)


def texts(result: Any) -> list[str]:
    return [it.text for it in result.content]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_asks_and_starts_jobs(api: OpenAIWorld, mode: str) -> None:
    token = await api.add_client("editor", scopes=["chat", "jobs"])
    async with connected(api, token, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == ["ask", "start_job", "job_status"]
        assert listed["ask"].input_schema["required"] == ["message"]

        heard: list[str] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            heard.append(message or "")

        long = "hello" * 40
        answer = await client.call_tool("ask", {"message": long}, progress_callback=progress)
        origin, text = texts(answer)
        assert "'main'" in origin and "not as instructions" in origin
        assert (answer.is_error, text) == (False, f"echo: {long}")
        assert api.agent.messages[0].dm == "api.editor.main"

        api.agent.may_answer.clear()
        call = {"message": "a long task", "idempotency_key": "one"}
        job = (await client.call_tool("start_job", call)).structured_content
        assert job is not None and (job["status"], job["answer"]) == ("working", None)
        again = (await client.call_tool("start_job", call)).structured_content
        assert again is not None and again["job_id"] == job["job_id"]
        status = {"job_id": job["job_id"]}
        waiting = await client.call_tool("job_status", status)
        assert waiting.structured_content == job and "job_status" in texts(waiting)[0]
    # the job goes on without a connection
    api.agent.may_answer.set()
    async with connected(api, token, mode=mode) as client:
        done = await client.call_tool("job_status", {**status, "wait_seconds": 120})
        assert texts(done)[1] == "echo: a long task"
        missing = await client.call_tool("job_status", {"job_id": "msg_none"})
        assert missing.is_error and "no job" in texts(missing)[0]
    assert len(api.agent.texts) == 2


async def test_memory_and_approvals_are_read_as_the_conversation_may(api: OpenAIWorld) -> None:
    asked: list[MemoryQuery] = []

    async def ensure(space: EnsureSpace) -> Empty:
        return Empty()

    async def query(request: MemoryQuery) -> MemoryHits:
        asked.append(request)
        now = datetime.now(UTC)
        fields: Any = {"created_at": now, "updated_at": now, "origin": "web"}
        hit = MemoryHit(document_id="d1", key=None, text="x" * 9000, score=1.0, arms=(), **fields)
        return MemoryHits(hits=(hit,), arms_used=("text",))

    token = await api.add_client("editor", scopes=ALL)
    async with (
        api.world.bus.serve(
            "choir-memory",
            "1.0.0",
            Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
            Endpoint(subjects.query_memory(), MemoryQuery, query),
        ),
        connected(api, token) as client,
    ):
        found = (await client.call_tool("memory_search", {"query": "tea"})).structured_content
        assert found is not None and found["agent"] == "main"
        [hit] = found["hits"]
        assert (len(hit["text"]), hit["is_cut"], hit["origin"]) == (4000, True, "web")
        assert (asked[0].agent_id, asked[0].query) == ("main", "tea")
        forged = await client.call_tool("memory_search", {"query": "tea", "target_agent": "other"})
        assert forged.is_error and len(asked) == 1

        empty = await client.call_tool("approvals", {})
        assert texts(empty) == ["No request is pending."]
        tool: Any = {"name": "today", "description": "?", "inputSchema": {"type": "object"}}
        payload: Any = {"server": "weather", "command": ["weather-server"], "tools": [tool]}
        request = ApprovalRequest(request_type="mcp_tools", call_id="c1", payload=payload)
        answer = await api.agent.hand.call("REQUEST_APPROVAL", request)
        approval_id = ApprovalResponse.model_validate_json(answer).approval_id
        pending = (await client.call_tool("approvals", {})).structured_content
        assert pending is not None
        assert [it["approval_id"] for it in pending["pending"]] == [approval_id]


async def test_attacks_are_refused(api: OpenAIWorld) -> None:
    token = await api.add_client("editor", agents=["main"], scopes=["chat"])
    other = await api.add_client("other-app", scopes=["jobs"])
    assert (await post(api, token)).status_code == 200
    assert (await post(api, "")).status_code == 401
    assert (await post(api, "choir-editor.wrong")).status_code == 401
    assert (await post(api, token, agent="other")).status_code == 404
    assert (await post(api, token, agent="nobody")).status_code == 404
    assert (await post(api, token, Host="evil.example")).status_code == 403
    assert (await post(api, token, Origin="https://evil.example")).status_code == 403
    assert (await post(api, "", Host="evil.example")).status_code == 403, "before the token"
    assert (await post(api, token, b'"' + b"a" * 1_000_001)).status_code == 413
    assert (await post(api, token, b"{")).status_code == 400
    foreign = {"X-Choir-Conversation": "console"}
    assert (await post(api, token, **foreign)).status_code == 404
    async with make_client(api.world.tcp, headers={"Authorization": f"Bearer {token}"}) as http:
        for method in ("GET", "DELETE", "PUT"):
            answer = await http.request(method, "/mcp/main")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")

    async with connected(api, other) as client:
        started = (await client.call_tool("start_job", {"message": "mine"})).structured_content
    async with connected(api, token) as client:
        assert [it.name for it in (await client.list_tools()).tools] == ["ask", "job_status"]
        for name in ("start_job", "memory_search", "approvals"):
            refused = await client.call_tool(name, {"message": "x"} if name == "start_job" else {})
            assert refused.is_error and "has no scope" in texts(refused)[0]
        assert started is not None
        theirs = await client.call_tool("job_status", {"job_id": started["job_id"]})
        assert theirs.is_error and "no job" in texts(theirs)[0]
        for message in ("/approve 1", "  /cancel", "\n/reset", "", " "):
            command = await client.call_tool("ask", {"message": message})
            assert command.is_error, message
        long = await client.call_tool("ask", {"message": "x" * 200_000})
        assert long.is_error
        assert api.agent.texts == ["mine"]

        # the token is revoked while a call waits
        api.agent.may_answer.clear()
        call = asyncio.create_task(client.call_tool("ask", {"message": "slow"}))

        async def is_asked() -> bool:
            return "slow" in api.agent.texts

        await until(is_asked)
        assert (await api.world.delete("/v1/clients/editor")).status_code == 204
        ended = await asyncio.wait_for(call, 60)
        assert ended.is_error and "revoked" in texts(ended)[0]
    assert (await post(api, token)).status_code == 401


async def test_a_program_that_starts_commands_speaks_stdio(api: OpenAIWorld) -> None:
    token = await api.add_client("desktop")
    env = {
        "CHOIR_HOME": str(api.world.home),
        "CHOIR_CLIENT_TOKEN": token,
        "PATH": os.environ["PATH"],
    }
    command = StdioServerParameters(command=str(CHOIRCTL), args=["mcp", "serve", "main"], env=env)
    async with asyncio.timeout(200), Client(command) as client:
        assert [it.name for it in (await client.list_tools()).tools] == ["ask", "job_status"]
        answer = await client.call_tool("ask", {"message": "hello"})
        assert texts(answer)[1] == "echo: hello"
        refused = await client.call_tool("approvals", {})
        assert refused.is_error and "has no scope" in texts(refused)[0]

    shell = ChoirctlRunner(api.world.home, {"CHOIR_CLIENT_TOKEN": "choir-desktop.wrong"})
    message = await asyncio.to_thread(lambda: shell.fails(4, "mcp", "serve", "main"))
    assert "choirctl client add" in message
    shell = ChoirctlRunner(api.world.home, {"CHOIR_CLIENT_TOKEN": token})
    # the end of the input is a normal end
    assert await asyncio.to_thread(lambda: shell.succeeds("mcp", "serve", "main")) == ""
    message = await asyncio.to_thread(lambda: shell.fails(3, "mcp", "serve", "nobody"))
    assert "nobody" in message
    shell = ChoirctlRunner(api.world.home)
    message = await asyncio.to_thread(lambda: shell.fails(2, "mcp", "serve", "main"))
    assert "CHOIR_CLIENT_TOKEN" in message


@pytest.mark.nightly  # the tests above make its calls with the same SDK
async def test_the_program_of_the_page_runs(api: OpenAIWorld) -> None:
    [program] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    token = await api.add_client("notebook", scopes=ALL)
    env = {**os.environ, "CHOIR_CLIENT_TOKEN": token, "CHOIR_MCP_URL": f"{api.world.tcp}/mcp/main"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 300)
    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "ask start_job job_status memory_search approvals",
        "echo: What is new?",
        "done",
    ]


async def test_of_several_people_each_client_has_what_its_person_may(stopped: World) -> None:
    asked: list[MemoryQuery] = []

    async def ensure(space: EnsureSpace) -> Empty:
        return Empty()

    async def query(request: MemoryQuery) -> MemoryHits:
        asked.append(request)
        return MemoryHits(hits=(), arms_used=("text",))

    async with openai_world(stopped, ada="owner", bob="member") as api:
        refused = await stopped.post("/v1/clients", json={"name": "nobodys"})
        assert refused.status_code == 400 and "--person" in refused.text
        tokens = {
            name: await api.add_client(f"{name}s", person=name, scopes=ALL, agents=["main"])
            for name in ("ada", "bob")
        }
        request = ApprovalRequest(
            request_type="call", call_id="c1", payload={"tool": "x.y"}, dm="api.bobs.main"
        )
        await api.agent.hand.call("REQUEST_APPROVAL", request)
        seen: dict[str, Any] = {}
        async with api.world.bus.serve(
            "choir-memory",
            "1.0.0",
            Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
            Endpoint(subjects.query_memory(), MemoryQuery, query),
        ):
            for name, token in tokens.items():
                async with connected(api, token) as client:
                    answer = await client.call_tool("ask", {"message": f"I am {name}"})
                    assert texts(answer)[1] == f"echo: I am {name}"
                    await client.call_tool("memory_search", {"query": "tea"})
                    pending = (await client.call_tool("approvals", {})).structured_content
                    assert pending is not None
                    seen[name] = len(pending["pending"])
        senders = [(it.sender.name, it.sender.role) for it in api.agent.messages if it.sender]
        assert senders == [("ada", "owner"), ("bob", "member")]
        # what was asked in one person's conversation is not listed for the other, whatever the role
        assert seen == {"ada": 0, "bob": 1}
        readers = [it.reader.conversations for it in asked if it.reader]
        assert readers == [("api.adas.main", "console"), ("api.bobs.main", "second")]
        home = {"X-Choir-Conversation": "console"}
        assert (await post(api, tokens["ada"], **home)).status_code == 200
        assert (await post(api, tokens["bob"], **home)).status_code == 404


async def test_calls_that_end_make_room_and_requests_are_limited(
    api: OpenAIWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await api.add_client("editor", scopes=["chat"])
    other = await api.add_client("other-app", scopes=["chat"])
    api.agent.may_answer.clear()

    async def is_refused(client: Client) -> bool:
        answer = await client.call_tool("ask", {"message": "one more", "wait_seconds": 1})
        return bool(answer.is_error) and f"{MAX_OPEN} requests of this client" in texts(answer)[0]

    async def are_stored() -> bool:
        count = "SELECT count(*) FROM choir_control.inbox WHERE dm = 'api.editor.main'"
        return bool(await api.world.database.fetchval(count) == MAX_OPEN)

    async with (
        connected(api, token) as busy,
        connected(api, token) as client,  # with connections of its own
        connected(api, other) as another,
        api.agent.hand.beating(),
    ):
        calls = [
            asyncio.create_task(busy.call_tool("ask", {"message": f"slow {number}"}))
            for number in range(MAX_OPEN)
        ]
        await until(are_stored)
        assert await is_refused(client)
        # one client does not take the places of another
        answer = await another.call_tool("ask", {"message": "hello", "wait_seconds": 1})
        assert answer.structured_content is not None
        assert answer.structured_content["status"] == "working"
        for call in calls:
            call.cancel()
        await asyncio.wait(calls, timeout=60)
        async with asyncio.timeout(90):
            while await is_refused(client):
                await asyncio.sleep(1)
        # what was cancelled was stored, and is answered
        api.agent.may_answer.set()

        async def are_answered() -> bool:
            return {f"slow {number}" for number in range(MAX_OPEN)} <= {*api.agent.texts}

        await until(are_answered)
        monkeypatch.setattr(clients, "REQUESTS_PER_MINUTE", 2)
        statuses = [(await post(api, token)).status_code for _ in range(4)]
        assert statuses[-1] == 429

"""The Python client, sync and async, with a choird and its console: TLS, cuts of the connection, a socket."""

import asyncio
import contextlib
import io
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from choir_client import (
    AgentFailure,
    Conflict,
    DeadlineExceeded,
    InvalidRequest,
    JobOptions,
    NewSchedule,
    NotFound,
    ScheduleEdit,
    Unauthorized,
    Unavailable,
)
from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.core_jobs import ContextBundle, ToolConstraints
from choir_common.wire.memory_search import EnsureSpace, MemoryHit, MemoryHits, MemoryQuery
from choir_common.wire.messages import Empty
from choir_common.wire.people import LinkIdentity
from choir_common.wire.rpc import StatusRequest
from tests.service.control.openai_world import OpenAIWorld, ScriptedAgent, openai_world
from tests.service.control.test_approvals import ask
from tests.service.control.world import OPERATOR_TOKEN, World, until
from tests.support.both_clients import CLIENTS, a_client

PAGE = Path(__file__).parents[3] / "docs/python-client.md"
LONG = "a long story that is told in several pieces"

pytestmark = pytest.mark.parametrize("kind", CLIENTS)


@dataclass
class BreakableLine:
    """A way to choird's port whose connections can be cut."""

    target_port: int
    port: int = 0
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        for writer in self.open:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        self.open |= {writer, far_writer}
        with contextlib.suppress(OSError):
            await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))
        self.open -= {writer, far_writer}
        writer.close()
        far_writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


@contextlib.asynccontextmanager
async def line_to(port: int) -> AsyncIterator[BreakableLine]:
    line = BreakableLine(port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        line.cut()
        await asyncio.sleep(0)


async def test_it_talks_over_tls_and_through_cuts(stopped: World, kind: str) -> None:
    world = stopped
    world.settings = world.settings.model_copy(update={"tls": "on"})
    (world.home / "secrets.json").write_text(json.dumps({"operator-token": OPERATOR_TOKEN}))
    async with openai_world(world) as api, line_to(world.settings.http_port) as line:
        url = f"https://127.0.0.1:{line.port}"
        async with a_client(kind, url, home=world.home) as choir:
            assert OPERATOR_TOKEN not in repr(choir)
            assert (await choir.ask("main", "hello")).text == "echo: hello"

            pieces = []
            async for piece in choir.stream("main", LONG):
                if not pieces:
                    line.cut()
                pieces.append(piece)
            assert "".join(pieces) == f"echo: {LONG}"
            assert len(pieces) > 1 and line.connections > 1

            await _wait_again(choir, api.agent)
            conversation = choir.conversation("console")
            command = await conversation.send("/help")
            assert "/approve" in command.note and command.inbox_id == ""
            assert (await conversation.wait(command)).text == command.note
            api.agent.kind = "error"
            with pytest.raises(AgentFailure, match="echo: oh"):
                await choir.ask("main", "oh")
            with pytest.raises(NotFound):
                await choir.conversation("nobody").send("hello")
        async with a_client(kind, url, home=world.home, token="tok-of-nobody") as choir:
            with pytest.raises(Unauthorized, match="operator token") as raised:
                await choir.status()
            assert "tok-of-nobody" not in str(raised.value)
        # the certificate is of no authority that the system knows
        async with a_client(kind, url, token=OPERATOR_TOKEN, home="/nowhere") as choir:
            with pytest.raises(Unavailable, match="certificate"):
                await choir.status()


async def _wait_again(choir: Any, agent: ScriptedAgent) -> None:
    """A wait that is over can go on; a repeated key stores no second message."""
    agent.may_answer.clear()
    conversation = choir.conversation("console")
    sent = await conversation.send("slow", idempotency_key="k1")
    with pytest.raises(DeadlineExceeded, match="may still answer"):
        await conversation.wait(sent, timeout_s=1)
    again = await conversation.send("slow", idempotency_key="k1")
    assert again.accepted.duplicate and again.inbox_id == sent.inbox_id
    agent.may_answer.set()
    assert str(await conversation.wait(sent)) == "echo: slow"
    with pytest.raises(Conflict):
        await conversation.send("other words", idempotency_key="k1")


@contextlib.asynccontextmanager
async def at_work(world: World) -> AsyncIterator[OpenAIWorld]:
    """A choird with an agent that does jobs, and a memory with one document."""

    async def ensure(space: EnsureSpace) -> Empty:
        return Empty()

    async def search(query: MemoryQuery) -> MemoryHits:
        now = datetime.now(UTC)
        times: Any = {"created_at": now, "updated_at": now}
        text = f"{query.query} cost 19 euros"
        hit = MemoryHit(document_id="d1", key=None, text=text, score=1.0, arms=(), **times)
        return MemoryHits(hits=(hit,), arms_used=("text",))

    memory = (
        Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
        Endpoint(subjects.search_memory(), MemoryQuery, search),
    )
    async with openai_world(world) as api, world.bus.serve("choir-memory", "1.0.0", *memory):
        yield api


async def test_it_does_an_operators_work(stopped: World, kind: str) -> None:
    async with at_work(stopped) as api, a_client(kind, home=stopped.home) as choir:
        assert "main" in [agent.agent_id for agent in await choir.agents.list()]
        assert (await choir.status()).config_version == 1
        with pytest.raises(NotFound, match="nobody"):
            await choir.agents.get("nobody")
        with pytest.raises(Conflict, match="choirctl agent start other"):
            await choir.ask("other", "hello")

        approval_id = await ask(api.agent.hand)
        [request] = await choir.approvals.list_open()
        request = await choir.approvals.get(request.approval_id)
        assert request.approval_id == approval_id and request.lines
        assert (await choir.approvals.approve(request)).status == "approved"
        with pytest.raises(Conflict):
            await choir.approvals.reject(request)

        hits = await choir.memory("main").search("shoes", limit=3, kinds=["note"])
        assert [hit.text for hit in hits.hits] == ["shoes cost 19 euros"]
        with pytest.raises(InvalidRequest, match="colour"):
            await choir.memory("main").search("shoes", colour="red")
        await _set_up(choir, stopped.home)
        await _look_around(choir)
        await _plan_and_work(choir, api.agent)


async def _set_up(choir: Any, home: Path) -> None:
    note = home / "note.txt"
    note.write_text("milk")
    file = await choir.conversation("console").upload(note)
    assert (file.name, file.size) == ("note.txt", 4)
    with pytest.raises(InvalidRequest, match="Is a directory"):
        await choir.conversation("console").upload(home)
    text = await choir.config.read_file()
    await choir.config.write_file(text.text.replace("120000", "119000"), text.digest)
    diff = await choir.config.load()
    assert [change.path for change in diff.changes] == ["crash_detection_threshold_ms"]
    assert (await choir.config.apply(diff.digest)).version == 2
    with pytest.raises(Conflict):
        await choir.config.write_file(text.text, text.digest)
    assert not (await choir.secrets.set("a-key", "a-value-of-a-key")).replaced
    assert "a-key" in (await choir.secrets.apply()).added
    assert "a-key" in [secret.name for secret in await choir.secrets.list() if secret.set]
    assert await choir.operations.list() == []
    assert (await choir.costs.report("agent")).lines == ()


async def _look_around(choir: Any) -> None:
    started = await choir.agents.build("main")
    # it has no repository; the stream ends with the operation
    assert [event.kind async for event in choir.operations.follow(started.operation_id)] == []
    assert (await choir.operations.get(started.operation_id)).status == "failed"
    assert await choir.hooks.list() == await choir.triggers.list() == []
    with pytest.raises(NotFound, match="no hook"):
        await choir.hooks.deliveries("none")
    with pytest.raises(NotFound, match="no trigger"):
        await choir.triggers.deliveries("none")
    assert await choir.people.list() == await choir.people.pairings() == []
    with pytest.raises(NotFound):
        await choir.people.link("ada", LinkIdentity(gateway="console", user="ada"))
    preview = await choir.people.preview_erasure(dm="console")
    assert (preview.person, preview.dm, preview.dms) == ("", "console", ("console",))
    with pytest.raises(NotFound):
        await choir.people.preview_erasure(person="nobody")


async def _plan_and_work(choir: Any, agent: ScriptedAgent) -> None:
    tea = NewSchedule(agent_id="main", kind="remind", text="tea", timing="every", value="1d")
    added = await choir.schedules.add(tea)
    edited = await choir.schedules.update(added.schedule_id, ScheduleEdit(text="coffee"))
    assert edited.text == "coffee"
    [listed] = await choir.schedules.list("main")
    assert listed.schedule_id == added.schedule_id
    assert (await choir.schedules.run(added.schedule_id)).runs
    await choir.schedules.remove(added.schedule_id)

    agent.may_answer.clear()
    facts = ContextBundle(facts=("the key is a-value-of-a-key",))
    read = ToolConstraints(allowed_tools=("choir.fs.read",))
    options = JobOptions(name="sum", verbosity="quiet", context_bundle=facts, tool_constraints=read)
    job = await choir.jobs.start("main", "add the numbers", options=options, idempotency_key="k")
    again = await choir.jobs.start("main", "add the numbers", options=options, idempotency_key="k")
    assert (again.job_id, again.name) == (job.job_id, "sum")
    with pytest.raises(Conflict, match="idempotency key"):
        await choir.jobs.start("main", "add others", idempotency_key="k")
    with pytest.raises(NotFound, match="no harness 'codex'"):
        await choir.jobs.start("main", "code", options=JobOptions(harness="codex"))
    with pytest.raises(InvalidRequest, match="not a valid JSON Schema"):
        await choir.jobs.start("main", "x", options=JobOptions(output_schema={"type": "text"}))
    await _name_tools(choir, agent)

    async def is_open() -> bool:
        return [it.name for it in await choir.jobs.list("main")] == [job.name]

    await until(is_open)
    with pytest.raises(DeadlineExceeded, match="It goes on"):
        await choir.jobs.wait(job, timeout_s=1)
    by_name = await choir.jobs.get("main", job.name)
    assert (await choir.jobs.inject("main", "faster")).agent_id == "main"
    assert (await choir.jobs.cancel("main", job.name)).note
    agent.may_answer.set()
    for each in (job, by_name, again):
        assert (await choir.jobs.wait(each)).result == {"text": "echo: add the numbers"}
    assert (message := agent.messages[-1]).wake_up is not None
    assert (stored := message.wake_up.job) is not None
    assert stored.model_copy(update={"context_bundle": facts}) == options
    assert stored.context_bundle.facts == ("the key is [redacted]",)
    assert agent.texts.count("add the numbers") == 1


async def _name_tools(choir: Any, agent: ScriptedAgent) -> None:
    tools = ("choir.fs.read", "choir.fs.write", "mcp.git.log")
    report = StatusRequest(lane="edge", state="EDGE_IDLE", job_tools=tools)
    await agent.hand.call("REPORT_STATUS", report)
    # a report of another conversation says nothing of tools
    await agent.hand.call("REPORT_STATUS", StatusRequest(lane="edge:second", state="EDGE_IDLE"))
    wanted = ToolConstraints(allowed_tools=("choir.fs.raed", "choir.fs.write", "x" * 500))
    with pytest.raises(NotFound) as raised:
        await choir.jobs.start("main", "x", options=JobOptions(tool_constraints=wanted))
    assert "'choir.fs.raed' (did you mean choir.fs.read?)" in raised.value.message
    assert f"There are: {', '.join(tools)}." in raised.value.message
    assert len(raised.value.message) < 400


async def test_a_choir_that_is_away_is_unavailable(tmp_path: Path, kind: str) -> None:
    async with a_client(kind, home=tmp_path) as choir:
        with pytest.raises(Unavailable, match="choirctl up"):
            await choir.status()
    async with a_client(kind, "http://127.0.0.1:9", home=tmp_path) as choir:
        with pytest.raises(Unavailable, match="Nothing answers at http://127.0.0.1:9"):
            await choir.agents.list()
    with pytest.raises(InvalidRequest, match="not a valid address"):
        async with a_client(kind, "ftp://127.0.0.1"):
            raise AssertionError("it must not open")


async def test_the_programs_of_the_page_run(
    stopped: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of the page, each as a program: those with `await` are the async ones."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    chosen = [it for it in programs if ("await" in it) == (kind == "async")]
    assert chosen
    for name in ("CHOIR_URL", "CHOIR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(os.environ, "CHOIR_HOME", str(stopped.home))
    out = io.StringIO()
    async with at_work(stopped) as api:
        await ask(api.agent.hand)
        for program in chosen:
            with contextlib.redirect_stdout(out):
                await asyncio.to_thread(exec, compile(program, str(PAGE), "exec"), {})
    printed = out.getvalue()
    assert "echo: What is on today?" in printed
    if kind == "sync":
        assert (
            "{'text': 'echo: Add up the receipts of this week.'}" in printed
            and "cost 19 euros" in printed
            and "approved" in printed
        )

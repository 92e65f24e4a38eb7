"""Several control processes of one home, with agents that are processes, and a user who writes all the time.

Used by the tests of fail-over. They share one Postgres, one NATS and one gateway stand-in. The effect
ledger is a file in the agent's workspace, to which each tool call appends one line.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx2

from choir_common.errors import ChoirError
from choir_common.http.client import make_client
from choir_common.wire.events import Event, Reply, ToolResultCommitted, parse_payload
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.world import World, until
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import start_service
from tests.support.replay import assert_replay_is_deterministic
from tests.support.service_process import ForkedService

MEND_WITHIN_S = 240.0


@dataclass
class ControlProcess:
    """One control process, which leads or is a standby."""

    process: ForkedService
    port: int
    log: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def readiness(self) -> str:
        """Return `ready`, what /readyz says of control, or an empty string if it does not answer."""
        try:
            async with make_client(self.address, timeout_s=1) as client:
                answer = await client.get("/readyz")
        except httpx2.HTTPError:
            return ""
        parts = {part["name"]: part for part in answer.json()["parts"]}
        return "ready" if parts["control"]["ok"] else str(parts["control"]["detail"])

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


@dataclass
class ControlProcesses:
    """The processes that run now, and everything that was said to them."""

    world: World
    running: list[ControlProcess] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    """Inbox ids by the mark of their message."""
    said: set[str] = field(default_factory=set)
    """Marks of all messages, also of one that was accepted when nobody listened any more."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def start(self, dsn: str = "") -> ControlProcess:
        """Start one more process, and wait until it answers."""
        world, port = self.world, free_port()
        log = world.home / f"control-{len(list(world.home.glob('control-*')))}.log"
        secrets = world.home / "secrets-of-control.json"
        secrets.write_text(world.secrets.model_dump_json())
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "CHOIR_HOME": str(world.home),
            "CHOIR_POSTGRES_DSN": dsn or world.settings.postgres_dsn,
            "CHOIR_NATS_URL": world.settings.nats_url,
            "CHOIR_HTTP_PORT": str(port),
            "CHOIR_SECRETS_FILE": str(secrets),
        }
        with log.open("ab") as output:
            process = ForkedService(start_service("choir_control", env, output.fileno()))
        one = ControlProcess(process, port, str(log))
        self.running.append(one)
        await until(lambda: self._answers(one), MEND_WITHIN_S)
        return one

    async def _answers(self, one: ControlProcess) -> bool:
        assert one.process.returncode is None, self.logs()
        return await one.readiness() in ("ready", "standby")

    async def leader(self) -> ControlProcess:
        """Wait until one process leads, and return it."""
        leaders: list[ControlProcess] = []

        async def leads() -> bool:
            leaders[:] = [one for one in self.running if await one.readiness() == "ready"]
            assert len(leaders) < 2, "two processes lead"
            return bool(leaders)

        try:
            await until(leads, MEND_WITHIN_S)
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error
        return leaders[0]

    async def end_of(self, one: ControlProcess) -> int:
        """Wait until a process has ended; return its exit code."""
        self.running.remove(one)
        async with asyncio.timeout(MEND_WITHIN_S):
            return await one.process.wait()

    def logs(self) -> str:
        """Return the newest lines of all processes."""
        tails = (path.read_text().splitlines()[-25:] for path in self.world.home.glob("control-*"))
        return "\n---\n".join("\n".join(tail) for tail in tails)

    async def say(self) -> str:
        """Send a message whose answer appends its mark to the ledger, until accepted; return its mark."""
        mark = f"mark-{next(self._numbers)}"
        self.said.add(mark)
        call = json.dumps({"command": f"echo {mark} >> ledger.txt"})
        text = f"#delay=30 #tools=1 #tool=choir.exec {call}"
        async with asyncio.timeout(MEND_WITHIN_S):
            while True:
                with contextlib.suppress(ChoirError):
                    message = await self.world.say(text, mark)
                    if message.inbox_id is not None:
                        self.accepted[mark] = message.inbox_id
                        return mark
                await asyncio.sleep(0.1)

    def heard(self, mark: str) -> bool:
        """Return whether the answer to a message was delivered."""
        inbox_id = self.accepted[mark]
        return any(
            message.answers == inbox_id and message.kind != "notice"
            for message in self.world.gateway.delivered
        )

    async def ask(self) -> float:
        """Say something and wait for its answer; return the seconds that it took."""
        began = time.monotonic()
        mark = await self.say()

        async def answered() -> bool:
            return self.heard(mark)

        try:
            await until(answered, MEND_WITHIN_S)
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(f"{mark} was never answered\n{self.logs()}") from error
        return time.monotonic() - began

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Say one thing after the other during the block, without waiting for answers for long."""

        async def talk() -> None:
            while True:
                await self.ask()

        talking = asyncio.create_task(talk())
        try:
            yield
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)

    async def check(self) -> None:
        """Check that nothing was lost and nothing was done or said twice."""

        async def all_answered() -> bool:
            return all(self.heard(mark) for mark in self.accepted)

        await until(all_answered, MEND_WITHIN_S)
        leader = await self.leader()
        payloads = [payload async for payload in self._payloads(leader)]
        answers = Counter(
            p.answers for p in payloads if isinstance(p, Reply) and p.kind != "notice"
        )
        assert {answers[inbox_id] for inbox_id in self.accepted.values()} == {1}, answers
        delivered = {message.outbox_id: message for message in self.world.gateway.delivered}
        heard = Counter(m.answers for m in delivered.values() if m.kind != "notice" and not m.edits)
        assert {heard[inbox_id] for inbox_id in self.accepted.values()} == {1}, heard
        lines = Counter((self.world.home / "workspaces/main/ledger.txt").read_text().split())
        done = [
            p for p in payloads if isinstance(p, ToolResultCommitted) and p.tool == "choir.exec"
        ]
        succeeded = sum(1 for result in done if result.status == "success")
        interrupted = sum(1 for result in done if result.status == "interrupted")
        assert len({result.call_id for result in done}) == len(done), done
        assert succeeded <= lines.total() <= succeeded + interrupted, (lines, done)
        assert set(lines) <= self.said and max(lines.values()) == 1, (lines, self.said)

    async def _payloads(self, leader: ControlProcess) -> AsyncIterator[object]:
        headers = {"Authorization": f"Bearer {self.world.secrets.operator_token}"}
        async with make_client(leader.address, headers=headers, timeout_s=60) as client:
            sessions = (await client.get("/v1/sessions", params={"agent_id": "main"})).json()
            for session in sessions["items"]:
                path = f"/v1/sessions/{session['session_id']}"
                verdict = (await client.get(f"{path}/verify")).json()
                assert verdict["ok"], verdict
                events = []
                after: int | None = 0
                while after is not None:
                    page = (
                        await client.get(f"{path}/events", params={"after": after, "limit": 500})
                    ).json()
                    events += page["items"]
                    after = events[-1]["rev"] if page["next"] is not None else None
                events_of = [_event(item) for item in events]
                assert_replay_is_deterministic(events_of)
                for event in events_of:
                    yield parse_payload(event)


def _event(item: object) -> Event:
    return Event.model_validate(item)


@contextlib.asynccontextmanager
async def control_processes(world: World) -> AsyncIterator[ControlProcesses]:
    """Prepare a world for several processes; they are killed after the block."""
    async with run_rehearsal() as model:
        path = world.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        config["memory"] = {"reminder_tokens": 0}  # there is no memory service to wait for
        path.write_text(json.dumps(config))
        processes = ControlProcesses(world)
        try:
            yield processes
        finally:
            for one in processes.running:
                one.signal(signal.SIGKILL)
            for one in processes.running:
                await one.process.wait()

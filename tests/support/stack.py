"""A complete embedded stack, started as a user would (`choirctl up --detach`), and a user at its console.

Used by tests/journey, tests/faults and tests/bench. Each stack has its own state directory and ports.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from choir_common.http.client import make_client
from choir_common.http.response_parser import parse_events
from choir_common.secret_file import edit_secret_file
from choir_common.stack_secrets import POSTGRES_ADMIN
from choir_common.wire.events import Event
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.operator import LogVerification
from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.postgres import PASSWORD, copy_cluster, template_cluster
from tests.support.preloaded_choirctl import run_choirctl

START_TIMEOUT_S = 240


@dataclass
class EmbeddedStack:
    """An embedded stack in a temporary state directory."""

    home: Path
    http_port: int
    env: dict[str, str] = field(default_factory=dict)
    real_program: bool = False
    """Whether commands start choirctl as a program, as a shell does, instead of in a fork."""

    @property
    def endpoint(self) -> str:
        return f"unix://{self.home}/socks/choird.sock"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def dsn(self) -> str:
        """Return the embedded Postgres' address, without the password."""
        return str(self.children()["endpoints"]["postgres"])

    @property
    def rehearsal_url(self) -> str:
        """Return the address of the rehearsal model."""
        return str(self.children()["endpoints"]["rehearsal"])

    def run(self, *args: str, check: bool = True, timeout: float = START_TIMEOUT_S) -> str:
        """Run choirctl against this stack; return what it printed on standard output."""
        done = run_choirctl(
            *args,
            home=self.home,
            env=self.env,
            timeout_s=timeout,
            real_program=self.real_program,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"choirctl {' '.join(args)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
                f"\n{self.logs()}"
            )
        return done.stdout

    def logs(self, lines: int = 15) -> str:
        """Return the newest lines of every log, for the message of a failed assertion."""
        tails = []
        for path in sorted((self.home / "logs").glob("*.log")):
            tail = "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
            tails.append(f"--- {path.name}\n{tail}")
        return "\n".join(tails)

    def secret(self, name: str) -> str:
        """Return the value of a secret in secrets.json."""
        return str(json.loads((self.home / "secrets.json").read_text())[name])

    def children(self) -> dict[str, Any]:
        """Return the supervisor's state file, which lists its child processes and endpoints."""
        record: dict[str, Any] = json.loads((self.home / "run" / "stack.json").read_text())
        return record

    def pid(self, name: str) -> int:
        """Return the pid of a child process of the supervisor."""
        return int(self.children()["children"][name]["pid"])

    async def agent_pid(self, agent: str = "main") -> int | None:
        """Return the pid of a running agent, or None if it does not run."""
        async with make_client(self.endpoint) as client:
            view = (await client.get(f"/v1/agents/{agent}")).json()
        return view["pid"] if view["state"] == "running" else None

    async def kill(self, name: str) -> None:
        """Send SIGKILL to a child process of the supervisor, or with `agent` to the agent `main`."""
        pid = await self.agent_pid() if name == "agent" else self.pid(name)
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if name == "postgres":
                # the whole process group, as in a power failure
                os.killpg(os.getpgid(pid), signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


@dataclass
class ConsoleUser:
    """A user at a console DM, who sends messages and receives everything that is delivered to the DM."""

    client: httpx2.AsyncClient
    dm: str
    heard: list[OutboundMessage] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def says(self, text: str, key: str | None = None, patience_s: float = 120) -> str:
        """Send a message, retrying with the same key until it is accepted; return its inbox id."""
        key = key or os.urandom(8).hex()
        deadline = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                answer = await self.client.post(
                    f"/v1/dms/{self.dm}/messages", json={"text": text, "idempotency_key": key}
                )
                if answer.status_code in (200, 202):
                    return str(answer.json()["inbox_id"])
                if answer.status_code < 500:
                    raise AssertionError(f"{answer.status_code}: {answer.text}")
            if time.monotonic() > deadline:
                raise AssertionError("the message was not accepted in time")
            await asyncio.sleep(0.1)

    async def wait_for_answer(self, inbox_id: str, timeout_s: float = 300) -> OutboundMessage:
        """Wait for the message that answers `inbox_id` and return it."""
        async with asyncio.timeout(timeout_s), self.arrived:
            while True:
                for message in self.heard:
                    if message.answers == inbox_id and message.kind != "notice":
                        return message
                await self.arrived.wait()

    async def asks(self, text: str, timeout_s: float = 300) -> str:
        """Send a message and return the text of its answer."""
        return (await self.wait_for_answer(await self.says(text), timeout_s)).text

    async def listen(self) -> None:
        """Follow the DM's event stream until cancelled; resume it after a lost connection."""
        last = "0"
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                async with self.client.stream(
                    "GET",
                    f"/v1/dms/{self.dm}/events",
                    headers={"Last-Event-ID": last},
                    timeout=httpx2.Timeout(10, read=40),
                ) as response:
                    if response.status_code == 200:
                        async for event in parse_events(response.aiter_bytes()):
                            if event.event == "message":
                                last = event.id
                                await self._take(OutboundMessage.model_validate_json(event.data))
            await asyncio.sleep(0.05)

    async def _take(self, message: OutboundMessage) -> None:
        async with self.arrived:
            self.heard.append(message)
            self.arrived.notify_all()


@contextlib.asynccontextmanager
async def console_user(
    endpoint: str, dm: str = "console", token: str | None = None, ca_pem: str | None = None
) -> AsyncIterator[ConsoleUser]:
    """Connect a user to a DM; the event stream is being opened before the block starts."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with make_client(endpoint, headers=headers, ca_pem=ca_pem) as client:
        user = ConsoleUser(client, dm)
        listening = asyncio.create_task(user.listen())
        try:
            await asyncio.sleep(0.05)
            yield user
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def read_log(stack: EmbeddedStack, session_id: str) -> list[Event]:
    """Return the complete stored log of a session."""
    events: list[Event] = []
    async with make_client(stack.endpoint) as client:
        while True:
            answer = await client.get(
                f"/v1/sessions/{session_id}/events",
                params={"after": events[-1].rev if events else 0, "limit": 500},
            )
            answer.raise_for_status()
            page = answer.json()
            events += [Event.model_validate(item) for item in page["items"]]
            if page["next"] is None:
                return events


async def sessions_of(stack: EmbeddedStack, agent: str = "main") -> list[dict[str, Any]]:
    """Return an agent's sessions, newest first."""
    async with make_client(stack.endpoint) as client:
        answer = await client.get("/v1/sessions", params={"agent_id": agent})
        answer.raise_for_status()
        items: list[dict[str, Any]] = answer.json()["items"]
        return items


async def verify(stack: EmbeddedStack, session_id: str) -> LogVerification:
    """Return control's verification of a session's log."""
    async with make_client(stack.endpoint) as client:
        answer = await client.get(f"/v1/sessions/{session_id}/verify", timeout=60)
        return LogVerification.model_validate_json(answer.content)


@contextlib.contextmanager
def running_stack(
    score: Path | None = None,
    env: Mapping[str, str] | None = None,
    prepare: Callable[[Path], None] | None = None,
    *,
    like_user: bool = False,
) -> Iterator[EmbeddedStack]:
    """Start a stack in a new state directory and remove it afterwards; `prepare` may edit its config.json.

    Its database is a copy of the template cluster, and choirctl and the services run in forks of processes
    that have their modules. With `like_user`, `up` does all of it, as on a user's machine.
    """
    home = make_short_directory("choir-")
    port = free_port()
    # the developer's API keys must not replace the rehearsal model
    keys = (
        "OPENROUTER_API_KEY",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
    )
    clean = {key: "" for key in keys if os.environ.get(key)}
    full_env = {"CHOIR_HTTP_PORT": str(port), **clean, **(env or {})}
    stack = EmbeddedStack(home, port, full_env, real_program=like_user)
    try:
        if prepare or not like_user:
            stack.run("init")
        if not like_user:
            _copy_database(home)
        if prepare:
            prepare(home)
        stack.run("up", "--detach", *(["--score", str(score)] if score else []))
        yield stack
    finally:
        stack.run("down", check=False)
        shutil.rmtree(home, ignore_errors=True)


def _copy_database(home: Path) -> None:
    """Give a state directory the template cluster and its password, as if it had been started before."""
    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        template = thread.submit(asyncio.run, template_cluster()).result()
    copy_cluster(template, home / "data" / "postgres")
    with edit_secret_file(home / "secrets.json") as secrets:
        secrets[POSTGRES_ADMIN] = PASSWORD


@contextlib.asynccontextmanager
async def running_stack_in_thread(
    score: Path | None = None,
    env: Mapping[str, str] | None = None,
    prepare: Callable[[Path], None] | None = None,
    *,
    like_user: bool = False,
) -> AsyncIterator[EmbeddedStack]:
    """Run `running_stack` in a thread, for tests whose event loop serves fakes that the stack connects to."""
    running = running_stack(score, env, prepare, like_user=like_user)
    stack = await asyncio.to_thread(running.__enter__)
    try:
        yield stack
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)

"""Load generator: many fake agents, each with a hash chain and heartbeats, at one choird in its own process.

The HTTP client below uses a tenth of the CPU time of a general one, so that a small machine measures choird
and not the client.
"""

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import psutil

from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.wire.events import Event, EventPayload, SessionStarted, ToolCallRequested
from choir_common.wire.rpc import HeartbeatRequest, HelloRequest
from tests.support.bus import BUS_KEY
from tests.support.service_process import running_bus_server, short_home

START_WITHIN_S = 300
MB = 1024 * 1024


class HttpConnection(asyncio.Protocol):
    """A keep-alive HTTP/1.1 connection that sends prepared requests and returns status and body."""

    def __init__(self) -> None:
        self._got = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's has the interface, but not the base class
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, rest = self._got.partition(b"\r\n\r\n")
        if not found or self._answer is None:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(rest) >= length:
            self._got = b""
            if not self._answer.done():
                self._answer.set_result((int(head[9:12]), rest))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server closed the connection"))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return the response's status and body. Raises ConnectionResetError."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionResetError("the server closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(path: str) -> HttpConnection:
    """Open a connection to a Unix socket."""
    _, line = await asyncio.get_running_loop().create_unix_connection(HttpConnection, path)
    return line


def http_post(path: str, body: bytes, **headers: str) -> bytes:
    """Return a complete HTTP POST request."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"POST {path} HTTP/1.1\r\nHost: choir\r\nContent-Type: application/json\r\n"
        f"{more}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@dataclass
class LoadAgent:
    """One fake agent: its lease token, the head of its chain and its connection."""

    agent_id: str
    session_id: str
    token: str
    socket: str
    head: LogHead = field(default_factory=LogHead)
    line: HttpConnection | None = None

    def request(self, verb: str, body: bytes) -> bytes:
        """Return the complete HTTP request of an RPC verb."""
        return http_post(
            f"/rpc/{verb}",
            body,
            Authorization=f"Bearer {self.token}",
            X_Choir_Session_Id=self.session_id,
            X_Choir_Request_Id="req-1",
        )

    def beat(self, payloads: list[EventPayload]) -> bytes:
        """Return the request of the next heartbeat with `payloads`, and advance the head of the chain."""
        events: list[Event] = []
        base = self.head
        for payload in payloads:
            events.append(
                link_event(self.head, self.session_id, "edge", payload, datetime.now(UTC))
            )
            self.head = head_of(events[-1])
        body = HeartbeatRequest(
            agent_id=self.agent_id,
            epoch=1,
            base_rev=base.rev,
            new_rev=self.head.rev,
            patches=tuple(events),
            config_version=1,
            hash_prev=base.hash,
            hash_new=self.head.hash,
            timestamp="",
        )
        return self.request("HEARTBEAT", body.model_dump_json().encode())

    async def send(self, request: bytes) -> float:
        """Send a prepared request; return the seconds it took. Fails unless the status is 200."""
        assert self.line is not None
        start = time.perf_counter()
        status, body = await self.line.send(request)
        assert status == 200, (status, body)
        return time.perf_counter() - start


@dataclass
class LoadTest:
    """All fake agents, and the choird process that serves them."""

    home: Path
    process: Process
    members: list[LoadAgent]

    @property
    def rss_mb(self) -> float:
        """Return choird's resident memory in MB."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / MB

    @property
    def cpu_s(self) -> float:
        """Return the CPU time that choird has used, in seconds."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


def sample_event(number: int = 0) -> EventPayload:
    """Return the most frequent kind of event: a tool call of typical size."""
    call = {"command": f"echo {number}; " + "x" * 200}
    return ToolCallRequested(
        turn_id="turn_1", call_id=f"call_{number}", tool="choir.exec", input=call
    )


@contextlib.asynccontextmanager
async def running_load(agents: int, dsn: str, password: str) -> AsyncIterator[LoadTest]:
    """Start a choird with `agents` agents on the database `dsn`; each has appended its first event."""
    async with short_home() as home, running_bus_server() as nats:
        order = {
            "home": str(home),
            "agents": agents,
            "dsn": dsn,
            "password": password,
            "nats_url": nats.url,
            "nats_key": BUS_KEY,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.load_choird"),
            stdin=PIPE,
            stdout=PIPE,
            cwd=Path(__file__).parents[2],
            limit=MB,
        )
        try:
            async with asyncio.timeout(START_WITHIN_S):
                members = await _members(process, json.dumps(order))
            yield LoadTest(home, process, members)
            for member in members:
                if member.line is not None:
                    member.line.close()
        finally:
            await _end(process)


async def _members(process: Process, order: str) -> list[LoadAgent]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(order.encode() + b"\n")
    await process.stdin.drain()
    specs = json.loads(await process.stdout.readline())
    members = []
    for spec in specs:
        socket = f"{spec['socket_dir']}/choir.sock"
        member = LoadAgent(spec["agent_id"], spec["session_id"], spec["lease_token"], socket)
        member.line = await connect(socket)
        hello = HelloRequest(
            agent_id=member.agent_id,
            session_id=member.session_id,
            epoch=1,
            image_version="",
            tool_manifest_hash="",
            skill_manifest_hash="",
        )
        await member.send(member.request("INIT_HELLO", hello.model_dump_json().encode()))
        await member.send(member.beat([SessionStarted(agent_id=member.agent_id, epoch=1)]))
        members.append(member)
    return members


async def _end(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 60)
    except TimeoutError:
        process.kill()
        await process.wait()

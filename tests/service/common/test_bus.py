"""The bus against a real nats-server: typed answers, envelopes, deadlines, and coming back."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from choir_common.wire.browser import CloseContext
from choir_common.wire.memory_search import EnsureSpace
from choir_common.wire.messages import Empty


@dataclass
class NatsProcess:
    """A nats-server on a fixed port that can be killed and started again."""

    directory: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = Path(sys.executable).parent / "nats-server"
        self.process = subprocess.Popen(
            [binary, "-a", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.directory,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError("nats-server did not listen")

    def kill(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsProcess]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = NatsProcess(tmp_path, port)
    server.start()
    yield server
    server.kill()


async def ensure(_: EnsureSpace) -> Empty:
    return Empty()


async def refuse(_: EnsureSpace) -> Empty:
    raise NotFound("There is no agent x.")


async def break_down(_: EnsureSpace) -> Empty:
    raise RuntimeError("secret internals")


async def dawdle(_: EnsureSpace) -> Empty:
    await asyncio.sleep(30)
    return Empty()


SPACE = EnsureSpace(agent_id="main")


async def test_an_answer_arrives_as_its_model(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.ok", EnsureSpace, ensure)):
            assert await bus.request("t.ok", SPACE, Empty, 60) == Empty()


async def test_an_error_arrives_as_the_class_it_was_raised_as(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.no", EnsureSpace, refuse)):
            with pytest.raises(NotFound, match="no agent x"):
                await bus.request("t.no", SPACE, Empty, 60)


async def test_an_unexpected_failure_shows_no_internals(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.bug", EnsureSpace, break_down)):
            with pytest.raises(ChoirError) as caught:
                await bus.request("t.bug", SPACE, Empty, 60)
    assert "secret internals" not in str(caught.value)


async def test_a_request_of_the_wrong_shape_is_the_callers_fault(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.ok", CloseContext, ensure)):
            with pytest.raises(InvalidRequest, match="agent_id"):
                await bus.request("t.ok", Empty(), Empty, 60)


async def test_a_service_is_ready_only_while_its_requests_are_answered(nats: NatsProcess) -> None:
    bus = Bus(nats.url, None, "a")
    assert "not reachable" in bus.failure_reason
    async with bus:
        assert "starting" in bus.failure_reason
        async with bus.serve("t", "1.0.0", Endpoint("t.ok", EnsureSpace, ensure)):
            assert bus.failure_reason == ""
        assert "starting" in bus.failure_reason


async def test_nobody_listening_is_said_at_once(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        with pytest.raises(Unavailable, match="not running right now"):
            await bus.request("t.nobody", SPACE, Empty, 30)


async def test_a_call_results_at_its_deadline(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.slow", EnsureSpace, dawdle)):
            with pytest.raises(DeadlineExceeded):
                await bus.request("t.slow", SPACE, Empty, 0.2)


async def test_a_slow_request_does_not_hold_up_the_next(nats: NatsProcess) -> None:
    async def sometimes_slow(space: EnsureSpace) -> Empty:
        return await (dawdle if space.agent_id == "slow" else ensure)(space)

    async with Bus(nats.url, None, "a") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.mixed", EnsureSpace, sometimes_slow)):
            async with asyncio.TaskGroup() as tasks:
                slow = tasks.create_task(
                    bus.request("t.mixed", EnsureSpace(agent_id="slow"), Empty, 20)
                )
                assert await bus.request("t.mixed", SPACE, Empty, 60) == Empty()
                slow.cancel()


async def test_after_a_killed_server_returns_both_sides_go_on(nats: NatsProcess) -> None:
    async with Bus(nats.url, None, "client") as client, Bus(nats.url, None, "s") as bus:
        async with bus.serve("t", "1.0.0", Endpoint("t.ok", EnsureSpace, ensure)):
            nats.kill()
            with pytest.raises((Unavailable, DeadlineExceeded)):
                await client.request("t.ok", SPACE, Empty, 1)
            nats.start()
            async with asyncio.timeout(60):
                while True:
                    try:
                        await client.request("t.ok", SPACE, Empty, 1)
                        break
                    except (Unavailable, DeadlineExceeded):
                        await asyncio.sleep(0.05)


async def test_a_bus_waits_for_a_server_that_starts_later(nats: NatsProcess) -> None:
    nats.kill()

    async def start_later() -> None:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(nats.start)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(start_later())
        async with asyncio.timeout(60), Bus(nats.url, None, "a") as bus:
            assert bus.connected


async def until_stopped(pid: int) -> None:
    """Wait until no thread of a process runs any more: SIGSTOP takes a moment to reach all of them."""
    threads = Path(f"/proc/{pid}/task")
    async with asyncio.timeout(60):
        while any(
            (thread / "stat").read_text().rpartition(")")[2].split()[0] != "T"
            for thread in threads.iterdir()
        ):
            await asyncio.sleep(0.01)


async def test_a_ping_is_answered_and_a_server_that_hangs_is_told_from_one_that_works(
    nats: NatsProcess,
) -> None:
    async with Bus(nats.url, None, "a") as bus:
        await bus.ping(60)
        assert nats.process
        nats.process.send_signal(signal.SIGSTOP)
        try:
            await until_stopped(nats.process.pid)
            with pytest.raises(DeadlineExceeded, match="NATS"):
                await bus.ping(0.5)
        finally:
            nats.process.send_signal(signal.SIGCONT)
        await bus.ping(60)

"""The fork server of agents: its forks are control's children, and a failure of it costs one start."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from choir_common.forks.client import ForkedProcess, ForkServer, start_server
from choir_common.wire.forks import AgentForkRequest
from choir_control.agents.runtimes.process.launch import FORK_SERVER
from choir_control.agents.runtimes.process.orphans import adopt_orphans

STATE_OF_MODULES = """
import gc, os, random, sys, tempfile, threading
import choir_agent.fork_server
own = {id(random._inst), id(sys.modules["secrets"]._sysrand)}
print([item for item in gc.get_objects() if isinstance(item, random.Random) and id(item) not in own])
print(tempfile.tempdir, threading.active_count())
"""
"""Prints random generators that Python does not seed again in a fork, and what is known too early."""
CANARY = "canary-of-control"
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
NO_BOOT_LINE = "Standard input is empty"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForkServer]:
    monkeypatch.setenv("CHOIR_SECRET", CANARY)
    adopt_orphans()
    server = ForkServer(FORK_SERVER, ENVIRONMENT)
    yield server
    await server.close()


async def fork(server: ForkServer, output: Path) -> ForkedProcess:
    """Fork an agent that is not confined, and whose boot line is missing."""
    options = ("--parent", str(os.getpid()), "--chdir", "/")
    request = AgentForkRequest(confinement=options, environment=ENVIRONMENT)
    with Path(os.devnull).open("rb") as nothing, output.open("wb") as file:
        return await server.fork(request, (nothing.fileno(), file.fileno()))


def find_server() -> psutil.Process:
    """Return the fork server of this process."""
    living = [child for child in psutil.Process().children() if child.status() != "zombie"]
    (found,) = [child for child in living if "choir_agent.fork_server" in child.cmdline()]
    return found


async def test_a_fork_is_our_child_and_ends_with_its_own_code(
    server: ForkServer, tmp_path: Path
) -> None:
    agent = await fork(server, tmp_path / "output")
    assert await agent.wait() == 1
    assert NO_BOOT_LINE in (tmp_path / "output").read_text()
    with pytest.raises(ChildProcessError):
        os.waitpid(agent.pid, 0)  # it was ours, and has been reaped


async def test_the_server_has_one_thread_and_no_secret_of_control(server: ForkServer) -> None:
    await server.start()
    process = find_server()
    assert process.num_threads() == 1
    assert process.environ() == ENVIRONMENT
    assert CANARY.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()


async def test_no_module_holds_what_two_agents_must_not_share() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", STATE_OF_MODULES, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().split("\n") == ["[]", "None 1", ""]


async def test_a_server_that_was_killed_fails_one_start_and_is_replaced(
    server: ForkServer, tmp_path: Path
) -> None:
    await (await fork(server, tmp_path / "first")).wait()
    killed = find_server()
    killed.send_signal(signal.SIGSTOP)
    waiting = asyncio.create_task(fork(server, tmp_path / "second"))
    await asyncio.sleep(0.1)
    killed.kill()
    with pytest.raises(OSError, match="it has ended"):
        await waiting
    agent = await fork(server, tmp_path / "third")
    assert await agent.wait() == 1
    assert NO_BOOT_LINE in (tmp_path / "third").read_text()


async def test_after_a_start_was_cancelled_the_next_gets_its_own_agent(
    server: ForkServer, tmp_path: Path
) -> None:
    await (await fork(server, tmp_path / "first")).wait()
    find_server().send_signal(signal.SIGSTOP)
    cancelled = asyncio.create_task(fork(server, tmp_path / "second"))
    await asyncio.sleep(0.1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    agent = await fork(server, tmp_path / "third")
    await agent.wait()
    assert NO_BOOT_LINE in (tmp_path / "third").read_text()


async def test_a_fork_that_nobody_waits_for_does_not_run(tmp_path: Path) -> None:
    adopt_orphans()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = await start_server(FORK_SERVER, theirs.fileno(), ENVIRONMENT)
    os.kill(process.pid, signal.SIGSTOP)
    options = ("--parent", str(os.getpid()), "--chdir", "/")
    request = AgentForkRequest(confinement=options, environment=ENVIRONMENT).model_dump_json()
    with ours, Path(os.devnull).open("rb") as nothing, (tmp_path / "output").open("wb") as file:
        socket.send_fds(ours, [request.encode()], [nothing.fileno(), file.fileno()])
    os.kill(process.pid, signal.SIGCONT)
    assert await process.wait() == 0
    await asyncio.sleep(1)  # a fork would have said by now that its boot line is missing
    assert (tmp_path / "output").read_text() == ""


@pytest.mark.parametrize("is_worthwhile", [True, False])
async def test_an_idle_server_ends_if_it_is_not_worth_its_memory(
    is_worthwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("choir_common.forks.client.IDLE_S", 0.1)
    server = ForkServer(FORK_SERVER, ENVIRONMENT, lambda: is_worthwhile)
    await server.start()
    process = find_server()
    await asyncio.sleep(0.5)
    assert (process.is_running() and process.status() != "zombie") == is_worthwhile
    await server.close()

"""Services start as forks of one process: as if executed, and without it by an interpreter of their own."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from choir_common.forks.client import ChildProcess
from choir_common.http.probe import UNIX, send_probe
from choir_local.child_log import ChildLog
from choir_local.launch import PYTHON, Command, ServiceLauncher, clean_environment, launch
from choir_local.orphans import adopting_orphans
from tests.support.home import make_short_directory
from tests.support.kernel_facts import describe
from tests.support.polling import until

SERVER = "choir_local.service_fork_server"
CANARY = "canary-of-the-supervisor"
STATE_OF_MODULES = f"""
import gc, random, sys, tempfile, threading
from {SERVER} import load_modules
load_modules()
own = {{id(random._inst), id(sys.modules["secrets"]._sysrand)}}
print([item for item in gc.get_objects() if isinstance(item, random.Random) and id(item) not in own])
print(tempfile.tempdir, threading.active_count())
"""
"""Prints random generators that Python does not seed again in a fork, and what is known too early."""


@pytest.fixture
def home() -> Path:
    return make_short_directory("choir-forks-")


@pytest.fixture
async def forks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServiceLauncher]:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with adopting_orphans():
        forks = ServiceLauncher()
        await forks.preload()
        yield forks
        await forks.close()


def egress(home: Path) -> Command:
    """Return the start of a service that needs no other one."""
    environment = clean_environment(CHOIR_HOME=str(home))
    return Command((*PYTHON, "choir_egress"), environment, b"{}")


def find_server() -> psutil.Process:
    """Return the fork server of this process."""
    living = [child for child in psutil.Process().children() if child.status() != "zombie"]
    (server,) = [child for child in living if SERVER in child.cmdline()]
    return server


async def started(process: ChildProcess, home: Path) -> dict[str, object]:
    """Wait until the egress service answers; return what the kernel says of it."""
    endpoint = f"{UNIX}{home / 'socks' / 'agents' / 'egress' / 'control.sock'}"

    async def is_ready() -> bool:
        response = await send_probe(endpoint, "/livez", 1.0)
        return response is not None and response.status == 200

    await until(is_ready, 60)
    # the machine's mounts change while other tests run
    return {name: fact for name, fact in describe(process.pid).items() if name != "mounts"}


async def end(process: ChildProcess) -> None:
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


async def test_a_fork_is_as_a_service_with_an_interpreter_of_its_own(
    forks: ServiceLauncher, home: Path
) -> None:
    log = ChildLog(home / "egress.log")
    facts = []
    for start in (forks.launch, launch):
        process = await start(egress(home), log)
        facts.append(await started(process, home))
        assert (SERVER in psutil.Process(process.pid).cmdline()) == (start != launch)
        assert psutil.Process(process.pid).ppid() == os.getpid()
        await end(process)
    assert facts[0] == facts[1]
    assert "fork server" not in (home / "egress.log").read_text()


async def test_a_descriptor_keeps_the_number_that_the_arguments_name(
    forks: ServiceLauncher, home: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd = listening.fileno()
        command = Command((*PYTHON, "choir_local.rehearsal", "--fd", str(fd)), fds=(fd,))
        process = await forks.launch(command, ChildLog(home / "rehearsal.log"))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"

        async def is_ready() -> bool:
            return await send_probe(address, "/livez", 1.0) is not None

        await until(is_ready, 60)
        await end(process)


async def test_the_server_has_one_thread_and_no_key_of_the_supervisor(
    forks: ServiceLauncher, home: Path
) -> None:
    process = await forks.launch(egress(home), ChildLog(home / "egress.log"))
    await started(process, home)
    await end(process)
    server = find_server()
    assert server.num_threads() == 1
    assert CANARY.encode() not in Path(f"/proc/{server.pid}/environ").read_bytes()


async def test_no_module_holds_what_two_services_must_not_share() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", STATE_OF_MODULES, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().split("\n") == ["[]", "None 1", ""]


async def test_without_the_server_a_service_loads_its_own_modules_and_says_so(
    forks: ServiceLauncher, home: Path
) -> None:
    server = find_server()
    server.send_signal(signal.SIGSTOP)
    log = ChildLog(home / "egress.log")
    starting = asyncio.create_task(forks.launch(egress(home), log))
    await asyncio.sleep(0.1)
    server.kill()
    process = await starting
    await started(process, home)
    assert psutil.Process(process.pid).cmdline()[-1] == "choir_egress"
    await end(process)
    await log.wait_complete()
    assert "the fork server failed (it has ended)" in (home / "egress.log").read_text()

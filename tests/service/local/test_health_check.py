"""The health check of the images: what hangs is killed, so that the engine starts its container again."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.ports import free_port

SCRIPT = Path(__file__).parents[3] / "deploy" / "docker" / "health.py"
# A service that listens, and answers what it is told; a child of a shell, as in a container with an init.
SERVICE = """
import socket, sys, time
with socket.create_server(("127.0.0.1", {port})) as listening:
    print("up", flush=True)
    while True:
        connection, _ = listening.accept()
        answer = b"{answer}"
        if answer:
            connection.recv(1000)
            connection.sendall(answer)
            connection.close()
        else:
            time.sleep(600)
"""
READY = "HTTP/1.1 200 OK\\r\\n\\r\\n"
UNREADY = "HTTP/1.1 503 no\\r\\n\\r\\n"


@pytest.fixture
def health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script, with a place of its own for what it counts."""
    spec = importlib.util.spec_from_file_location("health", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FAILURES", str(tmp_path / "unanswered"))
    return module


async def start(port: int, answer: str) -> asyncio.subprocess.Process:
    """Start a service below a shell, which ends with it, and wait until it listens."""
    code = SERVICE.format(port=port, answer=answer)
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec 3>&1; "$0" -S -c "$1" >&3 & wait', sys.executable, code),
        stdout=asyncio.subprocess.PIPE,
    )
    assert shell.stdout
    assert await shell.stdout.readline() == b"up\n"
    return shell


async def test_a_service_that_hangs_is_killed_after_three_checks(
    health: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "DEADLINE_S", 0.5)
    port = free_port()
    shell = await start(port, "")
    for _ in range(health.HUNG_AFTER):
        assert shell.returncode is None
        assert await asyncio.to_thread(health.main, [str(port)], shell.pid, ("sh",)) == 1
    async with asyncio.timeout(60):
        await shell.wait()


@pytest.mark.parametrize(("answer", "code"), [(READY, 0), (UNREADY, 1)])
async def test_a_service_that_answers_is_left_alone_ready_or_not(
    health: ModuleType, answer: str, code: int
) -> None:
    port = free_port()
    shell = await start(port, answer)
    for _ in range(health.HUNG_AFTER + 1):
        assert await asyncio.to_thread(health.main, [str(port)], shell.pid, ("sh",)) == code
    assert shell.returncode is None
    children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    assert len(children) == 1
    health.os.kill(int(children[0]), health.signal.SIGKILL)
    await shell.wait()

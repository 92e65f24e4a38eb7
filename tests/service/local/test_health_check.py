"""The health check of the images: what hangs is killed, so that the engine starts its container again."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "deploy" / "docker" / "health.py"
# A service that listens, and answers what it is told; a child of a shell, as in a container with an init.
SERVICE = """
import os, socket, sys, time
os.setuid({user})
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
# The check as a process of its own, with a short deadline: its script, what it counts in, port, init.
CHECK = """
import importlib.util, sys
script, counted, port, init = sys.argv[1:]
spec = importlib.util.spec_from_file_location("health", script)
health = importlib.util.module_from_spec(spec)
spec.loader.exec_module(health)
health.FAILURES, health.DEADLINE_S = counted, 0.5
sys.exit(health.main([port], int(init), ("sh",)))
"""
NOBODY = 65534
# dac_override is only for reading the files of the test
KEPT = "-all,+setuid,+setgid,+dac_override"
WITHOUT_CAP_KILL = ("setpriv", f"--inh-caps={KEPT}", f"--bounding-set={KEPT}", "--")
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


async def start(port: int, answer: str, user: int | None = None) -> asyncio.subprocess.Process:
    """Start a service below a shell, which ends with it, and wait until it listens."""
    code = SERVICE.format(port=port, answer=answer, user=os.geteuid() if user is None else user)
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
    for _ in range(health.MAX_FAILURES):
        assert shell.returncode is None
        assert await asyncio.to_thread(health.main, [str(port)], shell.pid, ("sh",)) == 1
    async with asyncio.timeout(60):
        await shell.wait()


async def test_a_hung_service_of_another_user_is_killed_by_a_root_without_cap_kill(
    tmp_path: Path,
) -> None:
    """As in control's container: its check is root with the capabilities to change users, and no others."""
    port = free_port()
    as_root = os.geteuid() == 0  # elsewhere both are the same user, and the kill must work as well
    shell = await start(port, "", NOBODY if as_root else None)
    check = [*(WITHOUT_CAP_KILL if as_root else ()), sys.executable, "-c", CHECK, str(SCRIPT)]
    counted = tmp_path / "unanswered"
    for _ in range(3):
        assert shell.returncode is None
        checking = await asyncio.create_subprocess_exec(
            *check, str(counted), str(port), str(shell.pid)
        )
        assert await checking.wait() == 1
    async with asyncio.timeout(60):
        await shell.wait()


def test_every_service_of_compose_runs_below_an_init_that_its_health_check_knows(
    health: ModuleType,
) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    without = {name for name, service in services.items() if not service["init"]}
    # they change their user before the init starts
    assert without == {"control", "backups", "egress"}
    assert services["backups"]["image"] == services["control"]["image"]
    dockerfile = (ROOT / "deploy/docker/Dockerfile").read_text()
    for name in without - {"backups"}:
        stage = dockerfile.split(f"FROM runtime AS {name}", 1)[1].split("\nFROM ", 1)[0]
        (entrypoint,) = [line for line in stage.splitlines() if line.startswith("ENTRYPOINT ")]
        *_, init, end = json.loads(entrypoint.removeprefix("ENTRYPOINT "))
        assert (Path(init).name in health.INITS, end) == (True, "--")
        assert Path(init).name in stage.split("apt-get install", 1)[1].split("&&", 1)[0].split()


@pytest.mark.parametrize(("answer", "code"), [(READY, 0), (UNREADY, 1)])
async def test_a_service_that_answers_is_left_alone_ready_or_not(
    health: ModuleType, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "DEADLINE_S", 60.0)
    port = free_port()
    shell = await start(port, answer)
    for _ in range(health.MAX_FAILURES + 1):
        assert await asyncio.to_thread(health.main, [str(port)], shell.pid, ("sh",)) == code
    assert shell.returncode is None
    children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    assert len(children) == 1
    health.os.kill(int(children[0]), health.signal.SIGKILL)
    await shell.wait()

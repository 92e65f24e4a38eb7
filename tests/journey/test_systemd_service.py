"""Both units of `choirctl service install` under a real systemd, which is PID 1 of a container.

Needs a Docker engine that permits privileged containers, and a package index. The container has a mount of
cgroup v2 of its own: systemd 256 and newer refuse v1, and without controllers v2 is enough to run services.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.wheel import build_wheel
from tests.compose.containers import docker, engine_answers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
CHOIRCTL = "/opt/choir/bin/choirctl"
WITHIN_S = 300.0
DOCKERFILE = """\
FROM debian:trixie-slim
RUN apt-get -q update
RUN apt-get -qy install --no-install-recommends systemd dbus-user-session libpam-systemd python3-venv procps
RUN useradd --create-home --uid 1000 alice
"""
INIT = (
    "umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec /lib/systemd/systemd"
)
PIP = "/opt/choir/bin/pip install -q --no-compile --find-links /dist choir-agents"
INSTALL = f"python3 -m venv /opt/choir && {PIP}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit in a container that systemd has booted."""

    container: str
    system: bool

    def run(self, *words: str, code: int | None = 0) -> str:
        """Run a command as the operator: root, or a user whose manager runs."""
        alice = ("-u", "alice", "-e", "HOME=/home/alice", "-e", "XDG_RUNTIME_DIR=/run/user/1000")
        options = ("-w", "/", *(() if self.system else alice))
        done = subprocess.run(
            ["docker", "exec", *options, self.container, *words],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        assert code in (None, done.returncode), f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout if done.returncode == 0 else ""

    def choirctl(self, *words: str, code: int | None = 0) -> str:
        home = ("--home", "/var/lib/choir") if self.system and words[0] != "service" else ()
        system = ("--system",) if self.system and words[0] == "service" else ()
        return self.run(CHOIRCTL, *home, *words, *system, code=code)

    def main_pid(self) -> int:
        """Return the process of the service; 0 while none runs."""
        words = ("systemctl", *(() if self.system else ("--user",)))
        return int(self.run(*words, "show", "--property=MainPID", "--value", "choir"))

    def wait_for_answer(self, text: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while text not in self.choirctl("chat", "-m", text, code=None):
            assert time.monotonic() < deadline, self.run("journalctl", "--no-pager", code=None)[
                -3000:
            ]
            time.sleep(1)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Boot systemd in a container with the wheel; yield its name."""
    if reason := engine_answers():
        pytest.skip(f"no Docker engine: {reason}")
    wheels = tmp_path_factory.mktemp("dist")
    uv = shutil.which(ROOT / ".tools/bin/uv") or "uv"
    build_wheel(ROOT, version="0.1.0.dev1", out=wheels, uv=uv)
    image = name = f"choir-systemd-{time.time_ns()}"
    subprocess.run(
        ["docker", "build", "-q", "-t", image, "-"], input=DOCKERFILE, text=True, check=True
    )
    try:
        mounts = (
            "--tmpfs=/run",
            "--tmpfs=/run/lock",
            "--tmpfs=/tmp:exec",
            f"--volume={wheels}:/dist:ro",
        )
        options = ("--detach", "--privileged", "--cgroupns=private", f"--name={name}", *mounts)
        docker("run", *options, image, "sh", "-c", INIT)
        subprocess.run(["docker", "exec", name, "sh", "-c", INSTALL], check=True, timeout=1500)
        # alice's manager runs as after a login that lasts
        docker("exec", name, "loginctl", "enable-linger", "alice")
        docker("exec", name, "systemctl", "start", "user@1000.service")
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True)
        subprocess.run(["docker", "image", "rm", image], capture_output=True)


@pytest.mark.parametrize("system", [True, False], ids=["of the machine", "of a user"])
def test_a_service_answers_restarts_after_a_kill_stops_and_is_removed(
    container: str, system: bool
) -> None:
    unit = Unit(container, system)
    installed = json.loads(unit.choirctl("service", "install", "--json"))
    unit.wait_for_answer("hello")
    owner = unit.run("ps", "-o", "user=", "-p", str(killed := unit.main_pid())).strip()
    assert owner == ("choir" if system else "alice")
    unit.run("kill", "-9", str(killed))
    deadline = time.monotonic() + WITHIN_S
    while unit.main_pid() in (0, killed):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    unit.wait_for_answer("again")
    scope = () if system else ("--user",)
    unit.run("systemctl", *scope, "stop", "choir")
    words = ("show", "--property=ActiveState", "--property=Result", "choir")
    state = set(unit.run("systemctl", *scope, *words).split())
    assert state == {"ActiveState=inactive", "Result=success"}
    status = json.loads(unit.choirctl("service", "status", "--json"))
    assert status["installed"] and status["enabled"] and not status["active"]
    unit.run("systemctl", *scope, "start", "choir")
    unit.wait_for_answer("once more")
    unit.choirctl("service", "uninstall", code=0)
    assert unit.main_pid() == 0
    unit.run("test", "-e", installed["file"], code=1)
    programs = unit.run("ps", "-e", "-o", "args=")
    assert "/opt/choir" not in programs, "a process of Choir was left"

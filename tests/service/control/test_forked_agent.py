"""An agent that the fork server forked is confined like one with an interpreter of its own."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from choir_control.agents.runtimes.process.launch import AGENT
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.test_real_agent import pid_of
from tests.service.control.world import World


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put homes where agents get a view of their own, which is not so in /dev/shm."""
    monkeypatch.setattr("tests.support.home._memory_disk_is_usable", lambda: False)


@pytest.fixture
async def home(on_disk: None, stopped: World) -> AsyncIterator[World]:
    """A choird that is not started, with an agent that rehearses."""
    async with run_rehearsal() as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        path.write_text(json.dumps(config))
        yield stopped
        await stopped.stop()


def describe(pid: int) -> dict[str, object]:
    """Return what the kernel allows a process: user, capabilities, limits, namespaces, files."""
    process = Path("/proc", str(pid))
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    rights = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    rest = ("NoNewPrivs", "Seccomp", "Umask", "SigIgn", "SigCgt", "SigBlk")
    mounts = [line.split(" ", 5)[3:] for line in (process / "mountinfo").read_text().splitlines()]
    own = psutil.Process().pid
    return {
        **{name: status[name] for name in (*rights, *rest)},
        "limits": (process / "limits").read_text(),
        "badness": (process / "oom_score_adj").read_text(),
        "cgroup": (process / "cgroup").read_text(),
        "mounts": sorted(map(str, mounts)),
        "apart": [namespace(pid, kind) != namespace(own, kind) for kind in ("mnt", "net", "ipc")],
        "session": os.getsid(pid) == pid,
        "files": sorted(
            target
            for path in (process / "fd").iterdir()
            if not (target := str(path.readlink())).startswith(("socket:", "pipe:"))
        ),
        "pipes": len(
            [path for path in (process / "fd").iterdir() if "pipe:" in str(path.readlink())]
        ),
        "folder": str((process / "cwd").readlink()),
    }


def namespace(pid: int, kind: str) -> Path:
    return Path("/proc", str(pid), "ns", kind).readlink()


async def test_a_fork_is_confined_as_an_agent_with_an_interpreter_of_its_own(home: World) -> None:
    described: list[tuple[dict[str, object], dict[str, object]]] = []
    for command in (AGENT, ("/usr/bin/env", *AGENT)):
        await home.start(ProcessRuntime(home.home, os.environ, command=command))
        agent = psutil.Process(await pid_of(home))
        assert ("choir_agent.fork_server" in agent.cmdline()) == (command == AGENT)
        await home.say("hello", command[0])
        await home.delivered(len(described) + 1)
        (launcher,) = agent.children()
        described.append((describe(agent.pid), describe(launcher.pid)))
        await home.stop()
    forked, executed = described
    assert forked == executed
    assert forked[0]["apart"] == [True, False, True]  # without the egress proxy, the host's network

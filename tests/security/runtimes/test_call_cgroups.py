"""S27: cgroups of agents and calls, in the real tree of cgroup version 2 where this host lets us make one.

On some hosts the controllers belong to version 1. The files with limits are therefore in a fake tree here;
membership, killing and removal are tested with the kernel. `test_cgroup_limits.py` tests that limits hold.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_agent.call_launcher.call_cgroup import CallCgroup, create_call_cgroup
from choir_agent.call_launcher.limits import CallLimits
from choir_common.confinement.kernel import Kernel
from choir_control.agents.runtimes.process.cgroups import (
    AgentCgroups,
    AgentLimits,
    CgroupError,
    find_own,
)
from tests.security.runtimes.confined import confining
from tests.security.runtimes.confined_calls import (
    IS_ROOT,
    Host,
    newest_landlock,
    run_confined,
    unsupported,
)

UNLIMITED = CallLimits(memory=0, processes=0)
HOME = Path("/home/of/choir")
LIMITS = AgentLimits(memory=8 << 30, processes=2_048, cpus=1)


@pytest.fixture
def base() -> Iterator[Path]:
    """Make a cgroup beside the one of this process; skip without the right to."""
    try:
        own = find_own(
            Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
        )
        base = own / f"choir-test-{os.getpid()}"
        base.mkdir()
    except (CgroupError, OSError) as error:
        pytest.skip(f"LOUD: no cgroup can be made here: {error}")
    yield base
    (base / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + 30
    while "populated 1" in (base / "cgroup.events").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    for directory in sorted((path for path in base.rglob("*") if path.is_dir()), reverse=True):
        directory.rmdir()
    base.rmdir()


def members(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def prepared(base: Path) -> AgentCgroups:
    groups = AgentCgroups(base, HOME, required=())
    groups.prepare()
    return groups


def test_the_processes_of_a_delegated_group_are_moved_and_agents_removed(base: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as service, subprocess.Popen(["sleep", "60"]) as tool:
        (base / "cgroup.procs").write_text(str(service.pid))
        agent = prepared(base).create("main", LIMITS)
        assert (members(base), members(base / "choir-services")) == ([], [service.pid])
        (agent / "call-1").mkdir()
        (agent / "call-1" / "cgroup.procs").write_text(str(tool.pid))
        # The next control process starts in the group of services, and kills what was left.
        prepared(base)
        assert tool.wait() == -signal.SIGKILL
        assert not agent.exists() and service.poll() is None
        service.kill()


def test_a_program_starts_in_the_group_of_its_call_and_ends_with_it(base: Path) -> None:
    directory = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    group = create_call_cgroup(directory, "call-1", UNLIMITED)
    program = Kernel().fork_into_cgroup(group.directory)
    if program == 0:
        os.execv("/bin/sh", ["sh", "-c", "setsid sleep 60 & sleep 60"])
    deadline = time.monotonic() + 30
    while len(members(base / "call-1")) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert program in members(base / "call-1") and len(members(base / "call-1")) == 3
    group.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == -signal.SIGKILL
    group.remove()
    assert not (base / "call-1").exists()
    os.close(directory)


@pytest.mark.parametrize("view", [True, False], ids=["namespaces", "no namespaces"])
def test_each_call_of_a_confined_agent_has_a_group_of_its_own(base: Path, view: bool) -> None:
    host = Host(newest_landlock(), root=IS_ROOT, view=view)
    if cause := unsupported(host):
        pytest.skip(cause)
    agent = prepared(base).create("main", LIMITS)
    code = """
import time
own = open('/proc/self/cgroup').read().splitlines()[-1]
calls = [end(start("print(open('/proc/self/cgroup').read().splitlines()[-1])"))[0] for _ in range(2)]
end(start("import os, time\\nif os.fork() == 0:\\n  os.setsid()\\n  time.sleep(60)"))
print(json.dumps([own, *calls]))
"""
    own, *calls = run_confined(host, code, options=("--cgroup", str(agent)))
    inside = f"{base.name}/{agent.parent.name}/main"
    assert own.endswith(f"{inside}/agent")
    assert [call.strip().partition(inside)[2] for call in calls] == ["/call-1", "/call-2"]
    assert sorted(path.name for path in agent.iterdir() if path.is_dir()) == ["agent"]


async def test_an_agent_that_ends_takes_along_its_group(base: Path) -> None:
    code = """
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
report(open('/proc/self/cgroup').read().splitlines()[-1])
sys.exit(0)
"""
    async with confining(code, cgroups=AgentCgroups(base, HOME, required=())) as place:
        await place.runtime.start(place.spec())
        assert (await place.report()).endswith("/main/agent")
        assert "cgroups" in place.runtime.call_limits()
        await place.next_exit()
    assert list(base.glob("choir-agents-*/*/")) == []


async def test_without_a_delegated_group_the_check_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu pids\n")
    async with confining("sys.exit(0)", cgroups=AgentCgroups(tmp_path, HOME)) as place:
        await place.runtime.start(place.spec())
        await place.next_exit()
        assert place.runtime.call_limits() == (
            "tool calls are limited by a check four times a second, and their processor time by "
            f"priority only: {tmp_path} has no controller memory"
        )


def fake_group(place: Path, files: dict[str, str]) -> int:
    """Make the directory of a call with the files that the kernel makes; return its open parent."""
    place.mkdir()
    for name, text in files.items():
        (place / name).write_text(text)
    return os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)


EVENTS = {"memory.events": "low 0\noom 0\noom_kill 0\n", "pids.events": "max 0\n"}
FILES = {**EVENTS, "memory.max": "", "memory.oom.group": "", "memory.swap.max": "", "pids.max": ""}


def test_a_call_has_limits_on_memory_swap_and_processes(tmp_path: Path) -> None:
    directory = fake_group(tmp_path / "call-1", {**FILES, "cpu.weight": ""})
    group = CallCgroup(directory, "call-1", CallLimits(memory=4 << 30, processes=512))
    written = {name: (tmp_path / "call-1" / name).read_text() for name in FILES if "." in name}
    assert written | EVENTS == {
        **EVENTS,
        "memory.max": str(4 << 30),
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": "512",
    }
    assert (tmp_path / "call-1" / "cpu.weight").read_text() == "50"
    assert group.find_excess() == ""


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 3\n", "it used more than 4096 MiB of memory"),
        ("pids.events", "max 7\n", "it had more than 512 processes"),
    ],
)
def test_a_limit_that_a_call_has_reached_is_named(
    tmp_path: Path, file: str, text: str, reason: str
) -> None:
    directory = fake_group(tmp_path / "call-1", {**FILES, file: text})
    group = CallCgroup(directory, "call-1", CallLimits(memory=4 << 30, processes=512))
    assert group.find_excess() == reason

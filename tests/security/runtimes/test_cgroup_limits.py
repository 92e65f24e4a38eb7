"""S27: the kernel enforces limits of cgroups.

`conftest.py` collects this file only where a part of the tree (version 2) is delegated to pytest, with the
controllers memory and pids. Elsewhere `test_kernel_with_cgroups.py` runs it in a kernel of its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_control.agents.runtimes.process.cgroups import (
    AgentCgroups,
    AgentLimits,
    find_own_delegated,
)
from tests.security.runtimes.confined_calls import (
    IS_ROOT,
    Host,
    newest_landlock,
    run_confined,
    unsupported,
)
from tests.security.runtimes.test_call_domains import BOMB, HOARD

LIMITS = AgentLimits(memory=8 << 30, processes=2_048, cpus=1)
MIB = 1 << 20


@pytest.fixture
def limited() -> Iterator[AgentCgroups]:
    """Use the cgroup that is delegated to this process, as control does. Raises CgroupError without one."""
    groups = AgentCgroups(find_own_delegated(), Path(f"/home/of/test-{os.getpid()}"))
    groups.prepare()
    yield groups
    agents = groups.create("main", LIMITS).parent
    groups.remove("main")
    agents.rmdir()


@pytest.mark.parametrize(
    ("script", "limit", "reason"),
    [
        (BOMB, "processes=100", "it had more than 100 processes"),
        (HOARD, f"memory={80 * MIB}", "it used more than 80 MiB of memory"),
        ("kept = b'x' * 400_000_000", f"memory={80 * MIB}", "it used more than 80 MiB of memory"),
    ],
    ids=["processes", "memory of several", "memory of one"],
)
def test_the_kernel_ends_a_call_at_its_limit_and_the_next_one_works(
    limited: AgentCgroups, script: str, limit: str, reason: str
) -> None:
    agent = limited.create("main", LIMITS)
    code = f"""
_, reply = end(start({script!r}))
print(json.dumps([reply.excess, reply.exit_code, end(start('print(1)'))[0]]))
"""
    host = Host(newest_landlock(), root=IS_ROOT)
    if cause := unsupported(host):
        pytest.skip(cause)
    assert run_confined(host, code, limit, options=("--cgroup", str(agent))) == [
        reason,
        None,
        "1\n",
    ]


BUSY = """
import os, time
os.fork()
end = time.monotonic() + 3
while time.monotonic() < end:
    pass
"""


def test_the_kernel_gives_an_agent_no_more_than_its_processor_time(limited: AgentCgroups) -> None:
    assert limited.limits_cpu, "the controller cpu is not delegated"
    host = Host(newest_landlock(), root=IS_ROOT)
    if cause := unsupported(host):
        pytest.skip(cause)
    agent = limited.create("main", AgentLimits(memory=8 << 30, processes=2_048, cpus=0.25))
    code = f"end(start({BUSY!r})); print(1)"
    assert run_confined(host, code, options=("--cgroup", str(agent))) == 1
    lines = (agent / "cpu.stat").read_text().splitlines()
    spent = {name: int(number) for name, number in (line.split() for line in lines)}
    assert spent["nr_throttled"] > 0
    # What exceeds the share in one period is missing in the next.
    assert spent["usage_usec"] <= (spent["nr_periods"] + 2) * 25_000

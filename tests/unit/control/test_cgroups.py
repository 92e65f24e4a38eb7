"""Cgroups of agents: which one is delegated, and what is written to the files of a tree."""

import os
from pathlib import Path

import pytest

from choir_control.agents.runtimes.process.cgroups import (
    AgentCgroups,
    AgentLimits,
    CgroupError,
    find_delegated,
    find_own,
)

MOUNT = "30 23 0:26 {root} {place} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HOME = Path("/home/of/choir")
SITE = "choir-agents-eb2eb37f"
LIMITS = AgentLimits(memory=8 << 30, processes=2_048, cpus=1.5)


def tree(place: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    """Make the files of a delegated cgroup that `prepare` reads."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "cgroup.controllers").write_text(controllers + "\n")
    (place / "cgroup.subtree_control").write_text("")
    agents = place / SITE
    agents.mkdir()
    (agents / "cgroup.kill").write_text("")
    return place


def mounted(place: Path, *, root: str = "/") -> str:
    return MOUNT.format(root=root, place=str(place).replace(" ", r"\040"))


def test_the_own_group_is_found_below_the_mount_of_version_2(tmp_path: Path) -> None:
    own = "1:name=systemd:/x\n0::/user.slice/choir.service\n"
    assert find_own(own, mounted(tmp_path)) == tmp_path / "user.slice/choir.service"
    place = tmp_path / "a b"
    assert find_own("0::/box/unit\n", mounted(place, root="/box")) == place / "unit"


@pytest.mark.parametrize("own", ["3:memory:/x\n", "0::/elsewhere\n"])
def test_without_a_group_of_version_2_the_reason_is_told(tmp_path: Path, own: str) -> None:
    with pytest.raises(CgroupError, match="version 2"):
        find_own(own, mounted(tmp_path, root="/box"))


def test_a_group_that_systemd_has_not_delegated_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("1\n")
    base = tree(tmp_path / "session.scope")
    with pytest.raises(CgroupError, match="shared with other programs.*Delegate=yes"):
        find_delegated("0::/session.scope\n", mounted(tmp_path))
    os.setxattr(base, "user.delegate", b"1")
    assert find_delegated("0::/session.scope\n", mounted(tmp_path)) == base
    # Another control process has moved the services before.
    (base / "choir-services").mkdir()
    assert find_delegated("0::/session.scope/choir-services\n", mounted(tmp_path)) == base


def test_the_root_of_a_containers_groups_is_its_own(tmp_path: Path) -> None:
    base = tree(tmp_path / "cgroup")
    assert find_delegated("0::/\n", mounted(base)) == base


def test_a_missing_controller_is_named(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="no controller memory$"):
        AgentCgroups(tree(tmp_path / "base", "cpu pids"), HOME).prepare()


def test_an_agent_gets_its_limits_and_controllers_for_its_calls(tmp_path: Path) -> None:
    base = tree(tmp_path / "base")
    groups = AgentCgroups(base, HOME)
    groups.prepare()
    agent = groups.create("main", LIMITS)
    assert agent == base / SITE / "main"
    assert {path.name: path.read_text() for path in agent.iterdir() if path.is_file()} == {
        "memory.max": str(8 << 30),
        "memory.swap.max": "0",
        "pids.max": "2048",
        "cpu.weight": "50",
        "cpu.max": "150000 100000",
        "cgroup.subtree_control": "+memory +pids +cpu",
    }
    assert (agent / "agent").is_dir()
    for group in (base, base / SITE):
        assert (group / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_without_the_controller_processor_time_is_not_limited(tmp_path: Path) -> None:
    groups = AgentCgroups(tree(tmp_path / "base", "memory pids"), HOME)
    groups.prepare()
    assert not groups.limits_cpu
    assert not (groups.create("main", LIMITS) / "cpu.max").exists()


def test_a_tree_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    base = tree(tmp_path / "base")
    (base / "cgroup.subtree_control").unlink()
    (base / "cgroup.subtree_control").mkdir()
    with pytest.raises(CgroupError, match="cannot be divided"):
        AgentCgroups(base, HOME).prepare()

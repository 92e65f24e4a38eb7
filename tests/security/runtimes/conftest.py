"""Which files of this folder a host can run."""

from choir_control.agents.runtimes.process.cgroups import REQUIRED, CgroupError, find_own_delegated


def delegates_cgroups() -> bool:
    """Return whether this process may divide its cgroup and limit memory and processes."""
    try:
        available = (find_own_delegated() / "cgroup.controllers").read_text().split()
    except (CgroupError, OSError):
        return False
    return set(REQUIRED) <= set(available)


collect_ignore = [] if delegates_cgroups() else ["test_cgroup_limits.py"]

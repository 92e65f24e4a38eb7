"""Cgroups (version 2) of agents, where a part of the tree is delegated to control.

systemd delegates the cgroup of a unit with `Delegate=yes`; root in a container may have one of its own. Below
it control makes two groups, because a group with controllers for its children must have no processes:

    choir-services          control, and everything that was started beside it
    choir-agents-SITE/AGENT one agent: `agent` for its process, and `call-N` for each tool call

SITE distinguishes the installations that run in the same cgroup.

The launcher of the agent makes the groups of calls (`choir_agent.call_launcher.call_cgroup`).
"""

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from choir_common.i18n import _

SERVICES, AGENT_PROCESS = "choir-services", "agent"
REQUIRED = ("memory", "pids")
OPTIONAL = ("cpu",)
DELEGATED_ATTRIBUTES = ("user.delegate", "trusted.delegate")
"""systemd sets them to 1 on a cgroup that its programs may divide."""
CPU_PERIOD_US = 100_000
"""The kernel's usual period, in microseconds: an agent that has used its share waits for the next one."""
MIN_CPU_QUOTA_US = 1_000
"""The smallest share of a period that the kernel accepts."""
CPU_WEIGHT = 50
"""The usual weight is 100: when the processor is busy, agents get half as much of it as a service."""
REMOVED_WITHIN_S = 5.0
POLL_INTERVAL_S = 0.005
MAX_MOVES = 20
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits on all processes of one agent together."""

    memory: int
    """Bytes, with the page cache and shared memory that they cause."""
    processes: int
    cpus: float
    """Processor cores."""


class CgroupError(Exception):
    """No cgroup is delegated to control; the text says why."""


class AgentCgroups:
    """The cgroups of agents below a delegated one. All methods block."""

    def __init__(self, base: Path, home: Path, *, required: Sequence[str] = REQUIRED) -> None:
        """Use the delegated cgroup `base`, which must have the `required` controllers.

        `home` is the state directory of the installation.
        """
        self._base = base
        site = hashlib.sha256(str(home).encode()).hexdigest()[:8]
        self._agents = base / f"choir-agents-{site}"
        self._required = tuple(required)
        self._controllers: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Divide the delegated cgroup and remove the agents of an earlier process.

        Raises CgroupError.
        """
        try:
            available = (self._base / "cgroup.controllers").read_text().split()
            if lacking := [name for name in self._required if name not in available]:
                raise CgroupError(
                    _("{base} has no controller {lacking}").format(
                        base=self._base, lacking=", ".join(lacking)
                    )
                )
            self._controllers = tuple(
                name for name in (*self._required, *OPTIONAL) if name in available
            )
            self._move_own_processes()
            self._enable_controllers(self._base)
            self._agents.mkdir(exist_ok=True)
            self._enable_controllers(self._agents)
            if not (self._agents / "cgroup.kill").exists():
                raise CgroupError(_("this kernel has no cgroup.kill (Linux 5.14 has it)"))
            for directory in self._agents.iterdir():
                if directory.is_dir():
                    self.remove(directory.name)
        except OSError as error:
            raise CgroupError(
                _("{base} cannot be divided: {error}").format(base=self._base, error=str(error))
            ) from error

    @property
    def limits_cpu(self) -> bool:
        """Return whether agents get a limit on processor time; known after `prepare`."""
        return "cpu" in self._controllers

    def create(self, agent_id: str, limits: AgentLimits) -> Path:
        """Create the cgroup of an agent, in place of an earlier one; raises OSError."""
        self.remove(agent_id)
        group = self._agents / agent_id
        group.mkdir()
        if "memory" in self._controllers:
            (group / "memory.max").write_text(str(limits.memory))
            with contextlib.suppress(PermissionError):  # a kernel without swap has no such file
                (group / "memory.swap.max").write_text("0")
        if "pids" in self._controllers:
            (group / "pids.max").write_text(str(limits.processes))
        if "cpu" in self._controllers:
            (group / "cpu.weight").write_text(str(CPU_WEIGHT))
            quota = max(MIN_CPU_QUOTA_US, round(limits.cpus * CPU_PERIOD_US))
            (group / "cpu.max").write_text(f"{quota} {CPU_PERIOD_US}")
        self._enable_controllers(group)
        (group / AGENT_PROCESS).mkdir()
        return group

    def remove(self, agent_id: str) -> None:
        """Kill everything in an agent's cgroup and remove it; raises OSError if a process does not end."""
        group = self._agents / agent_id
        if not group.exists():
            return
        (group / "cgroup.kill").write_text("1")
        deadline = time.monotonic() + REMOVED_WITHIN_S
        while True:
            try:
                for inner in group.iterdir():
                    if inner.is_dir():
                        inner.rmdir()
                group.rmdir()
            except FileNotFoundError:
                continue  # a supervisor has removed the group of its call
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_INTERVAL_S)
            else:
                return

    def _enable_controllers(self, group: Path) -> None:
        """Give the children of a cgroup the controllers."""
        words = " ".join(f"+{name}" for name in self._controllers)
        (group / "cgroup.subtree_control").write_text(words)

    def _move_own_processes(self) -> None:
        """Move all processes of the cgroup itself into one below it."""
        if not (self._base / "cgroup.type").exists():
            return  # the root of all cgroups may have both processes and controllers for its children
        services = self._base / SERVICES
        services.mkdir(exist_ok=True)
        # Again until there are none: a process may fork before it is moved.
        for _attempt in range(MAX_MOVES):
            pids = (self._base / "cgroup.procs").read_text().split()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (services / "cgroup.procs").write_text(pid)
        raise CgroupError(_("the processes of {base} cannot be moved").format(base=self._base))


def find_own_delegated() -> Path:
    """Return the cgroup that is delegated to this process; raises CgroupError."""
    try:
        return find_delegated(
            Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
        )
    except OSError as error:
        raise CgroupError(
            _("this system has no cgroups: {error}").format(error=str(error))
        ) from error


def find_delegated(cgroup: str, mounts: str) -> Path:
    """Return the cgroup that is delegated to this process; raises CgroupError.

    `cgroup` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo.
    """
    own = find_own(cgroup, mounts)
    # Another control process has divided it before.
    base = own.parent if own.name == SERVICES else own
    if not os.access(base, os.W_OK) or not os.access(base / "cgroup.subtree_control", os.W_OK):
        raise CgroupError(
            _("{base} is not writable; start Choir in a unit with Delegate=yes").format(base=base)
        )
    is_namespace_root = not (base.parent / "cgroup.procs").exists()
    if not is_namespace_root and not _is_marked(base):
        raise CgroupError(
            _(
                "{base} is shared with other programs; start Choir in a unit with Delegate=yes"
            ).format(base=base)
        )
    return base


def find_own(cgroup: str, mounts: str) -> Path:
    """Return the directory of this process's cgroup; raises CgroupError without version 2."""
    paths = [line[3:] for line in cgroup.splitlines() if line.startswith("0::")]
    for line in mounts.splitlines():
        fields, _separator, details = line.partition(" - ")
        if not details.startswith("cgroup2 ") or not paths:
            continue
        root, place = (_unescape(field) for field in fields.split(" ")[3:5])
        if Path(paths[0]).is_relative_to(root):
            return Path(place) / Path(paths[0]).relative_to(root)
    raise CgroupError(_("cgroup version 2 is not mounted, or has no group of this process"))


def _unescape(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


def _is_marked(group: Path) -> bool:
    """Return whether systemd has delegated a cgroup."""
    for name in DELEGATED_ATTRIBUTES:
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False

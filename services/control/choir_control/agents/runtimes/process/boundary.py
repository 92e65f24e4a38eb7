"""Boundary of an agent: what its processes may read, write and consume.

Computed by `make_boundary`, which only checks which paths exist, and passed to `confine` as options.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from choir_common.confinement.paths import (
    CERTIFICATES,
    DEVICES,
    exclude_home,
    outermost_paths,
    private_paths,
    python_directories,
    system_paths,
)
from choir_common.confinement.users import own_user
from choir_control.agents.runtimes.port import LaunchSpec

PACKAGES = ("choir_agent", "choir_common", "choir_files", "choir_models")
PASSED_VARIABLES = ("CHOIR_LOG_LEVEL", "OTEL_EXPORTER_OTLP_ENDPOINT")
INHERITED = ("LANG", "LC_ALL", "TZ", *CERTIFICATES)
# sbin for ldconfig and similar tools; no bin directory of the user.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def default_cpus() -> float:
    """Return all processor cores but one, which is left to control and Postgres; at least one."""
    return max(1, (os.cpu_count() or 1) - 1)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one process of an agent."""

    nofile: int = 4_096
    """Number of open files; a build tool needs hundreds."""
    fsize: int = 8 << 30
    """Bytes in one file: stops a runaway log, not a data set."""
    data: int = 4 << 30
    """Bytes of private memory; the agent needs 40 MB, a compiler about a gigabyte."""
    address_space: int = 64 << 30
    """Bytes of address space: Go, Java and V8 reserve tens of gigabytes that they never use."""
    core: int = 0
    """No core dumps, which would put secrets into the workspace."""
    processes: int = 2_048
    """Threads of this user. The kernel counts them per user (per agent with its own user or user namespace).

    The limit is therefore generous: it only stops a fork bomb. Root is exempt.
    """

    call_memory: int = 4 << 30
    """Bytes of memory of all processes of one tool call; without cgroups private memory only."""
    call_processes: int = 512
    """Processes of one tool call: stops a fork bomb, not a parallel build."""
    agent_memory: int = 8 << 30
    """Bytes of memory of an agent with all its tool calls, where there are cgroups."""
    agent_cpus: float = field(default_factory=default_cpus)
    """Processor cores of an agent with all its tool calls, where there are cgroups."""

    def options(self) -> Iterator[tuple[str, int]]:
        """Yield the limits under the kernel's names (RLIMIT_*)."""
        yield from (("core", self.core), ("nofile", self.nofile), ("fsize", self.fsize))
        yield from (("data", self.data), ("as", self.address_space), ("nproc", self.processes))


@dataclass(frozen=True, slots=True)
class Boundary:
    """Paths and limits of an agent's processes."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    owned: tuple[Path, ...]
    """Those of the paths whose files appear as the agent's own, if it has a user of its own."""
    user: int
    """User id of the agent if root runs control."""
    workspace: Path
    temporary: Path
    limits: ProcessLimits
    launcher: Path | None
    """Script that starts the programs of tool calls; None if the agent's package is not installed here."""

    def options(
        self, parent: int, view: Path | None, *, own_user: bool = False, offline: bool = False
    ) -> list[str]:
        """Return the options for the confinement's command line; they contain no secrets.

        With `offline` the view has a network of its own, without connection to another.
        """
        pairs: list[tuple[str, str]] = [("--parent", str(parent)), ("--chdir", str(self.workspace))]
        pairs += [("--read", str(path)) for path in self.read]
        pairs += [("--write", str(path)) for path in self.write]
        pairs += [("--device", path) for path in DEVICES if Path(path).exists()]
        pairs += [("--limit", f"{name}={number}") for name, number in self.limits.options()]
        if view is not None:
            pairs += [("--view", str(view)), ("--network", "none" if offline else "host")]
        if own_user:
            pairs.append(("--user", str(self.user)))
            pairs += [("--owned", str(path)) for path in self.owned]
        if self.launcher is not None:
            pairs.append(("--launcher", str(self.launcher)))
            pairs += [
                ("--call-limit", f"memory={self.limits.call_memory}"),
                ("--call-limit", f"processes={self.limits.call_processes}"),
            ]
        return [word for pair in pairs for word in pair]

    def environment(self, parent: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the agent."""
        own = {"HOME": str(self.workspace), "TMPDIR": str(self.temporary)}
        return {**common_environment(parent), **own}


def common_environment(parent: Mapping[str, str]) -> dict[str, str]:
    """Return what the environments of all agents have in common; `parent` is that of control."""
    passed = {name: parent[name] for name in PASSED_VARIABLES if parent.get(name)}
    inherited = {name: parent[name] for name in INHERITED if name in parent}
    return {
        "LANG": "C.UTF-8",
        **inherited,
        **passed,
        "PATH": PATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        # the agent's few threads need no malloc arena of their own; saves 1.5 MB per agent
        "MALLOC_ARENA_MAX": "1",
    }


def make_boundary(
    spec: LaunchSpec,
    home: Path,
    temporary: Path,
    limits: ProcessLimits,
    inherited: Mapping[str, str],
) -> Boundary:
    """Return the boundary of an agent; of the state directory `home` it contains only what `spec` names."""
    code = python_directories(PACKAGES)
    shared = outermost_paths([*system_paths(inherited), *code])
    safe = [part for path in shared for part in exclude_home(path, home.resolve())]
    read = outermost_paths([*safe, spec.choir_dir, spec.socket_dir])
    write = (spec.workspace, temporary)
    return Boundary(
        read=read,
        write=write,
        owned=(*private_paths(code, read), spec.choir_dir, spec.socket_dir, *write),
        user=own_user(home, f"agent {spec.agent_id}"),
        workspace=spec.workspace,
        temporary=temporary,
        limits=limits,
        launcher=find_launcher(),
    )


def find_launcher() -> Path | None:
    """Return the script of the launcher of tool calls, which belongs to the agent's package."""
    agent = find_spec("choir_agent")
    if agent is None or agent.origin is None:
        return None
    return Path(agent.origin).parent / "call_launcher" / "script.py"

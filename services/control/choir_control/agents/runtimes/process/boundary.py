"""Boundary of an agent: what its processes may read, write and consume.

Computed by `make_boundary`, which only checks which paths exist, and passed to `confine` as options.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from choir_control.agents.runtimes.port import LaunchSpec

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/proc")
# Not all of /etc: when control runs as root, an agent could read /etc/shadow and host keys.
CONFIGURATION = tuple(
    """
    alternatives ca-certificates crypto-policies fonts gai.conf gitconfig group host.conf hostname hosts
    ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime machine-id magic mime.types
    nsswitch.conf os-release passwd pki profile profile.d bash.bashrc inputrc protocols resolv.conf
    rpc services shells ssh/ssh_config ssh/ssh_config.d ssl terminfo timezone
    """.split()  # noqa: SIM905 - forty quoted names would hide the list
)
PACKAGES = ("choir_agent", "choir_common", "choir_files", "choir_models")
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
INHERITED = ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
# sbin for ldconfig and similar tools; no bin directory of the user.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


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
    """Threads of this user. The kernel counts them per user (per agent in a user namespace).

    The limit is therefore generous: it only stops a fork bomb. Root is exempt.
    """

    call_memory: int = 4 << 30
    """Bytes of memory of all processes of one tool call; without cgroups private memory only."""
    call_processes: int = 512
    """Processes of one tool call: stops a fork bomb, not a parallel build."""
    agent_memory: int = 8 << 30
    """Bytes of memory of an agent with all its tool calls, where there are cgroups."""

    def options(self) -> Iterator[tuple[str, int]]:
        """Yield the limits under the kernel's names (RLIMIT_*)."""
        yield from (("core", self.core), ("nofile", self.nofile), ("fsize", self.fsize))
        yield from (("data", self.data), ("as", self.address_space), ("nproc", self.processes))


@dataclass(frozen=True, slots=True)
class Boundary:
    """Paths and limits of an agent's processes."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    workspace: Path
    temporary: Path
    limits: ProcessLimits
    launcher: Path | None
    """Script that starts the programs of tool calls; None if the agent's package is not installed here."""

    def options(self, parent: int, view: Path | None, *, offline: bool = False) -> list[str]:
        """Return the options for `confine`'s command line; they contain no secrets.

        With `offline` the view has a network of its own, without connection to another.
        """
        pairs: list[tuple[str, str]] = [("--parent", str(parent)), ("--chdir", str(self.workspace))]
        pairs += [("--read", str(path)) for path in self.read]
        pairs += [("--write", str(path)) for path in self.write]
        pairs += [("--device", path) for path in DEVICES if Path(path).exists()]
        pairs += [("--limit", f"{name}={number}") for name, number in self.limits.options()]
        if view is not None:
            pairs += [("--view", str(view)), ("--network", "none" if offline else "host")]
        if self.launcher is not None:
            pairs.append(("--launcher", str(self.launcher)))
            pairs += [
                ("--call-limit", f"memory={self.limits.call_memory}"),
                ("--call-limit", f"processes={self.limits.call_processes}"),
            ]
        return [word for pair in pairs for word in pair]

    def environment(self, parent: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the agent."""
        variables = {name: parent[name] for name in INHERITED if name in parent}
        return {
            "LANG": "C.UTF-8",
            **variables,
            "PATH": PATH,
            "HOME": str(self.workspace),
            "TMPDIR": str(self.temporary),
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
    fixed = [Path(path) for path in SYSTEM] + [Path("/etc", name) for name in CONFIGURATION]
    certificates = [Path(inherited[name]) for name in INHERITED[-2:] if inherited.get(name)]
    shared = outermost_paths(
        [*fixed, *certificates, *resolver_directories(), *python_directories()]
    )
    safe = [part for path in shared for part in exclude_home(path, home.resolve())]
    return Boundary(
        read=outermost_paths([*safe, spec.choir_dir, spec.socket_dir]),
        write=(spec.workspace, temporary),
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


def python_directories() -> list[Path]:
    """Return the directories of this Python, its packages and the agent's source code."""
    # Not sys.path: it may contain the directory where control was started, such as the user's home.
    specs = [find_spec(package) for package in PACKAGES]
    sources = [Path(spec.origin).parent.parent for spec in specs if spec and spec.origin]
    interpreter = Path(sys.executable).resolve().parent.parent
    return [Path(sys.prefix), Path(sys.base_prefix), interpreter, *sources]


def exclude_home(path: Path, home: Path) -> list[Path]:
    """Return `path`, or its parts outside `home` if `home` lies inside `path`."""
    if not home.is_relative_to(path.resolve()):
        return [path]
    if path.resolve() == home:
        return []
    return [part for child in sorted(path.iterdir()) for part in exclude_home(child, home)]


def resolver_directories() -> list[Path]:
    """Return the directory of resolv.conf's target if /etc only links to it."""
    real = Path("/etc/resolv.conf").resolve()
    return [] if real.is_relative_to("/etc") else [real.parent]


def outermost_paths(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the existing paths and their link targets, without those inside another of them."""
    every = {path for path in paths if path.exists()}
    every |= {Path(os.path.realpath(path)) for path in every}
    real = {path for path in every if not path.is_symlink()}
    outermost = {path for path in every if not any(parent in real for parent in path.parents)}
    return tuple(sorted(outermost))

"""Paths that a confined program needs: the system, its configuration, Python and its packages."""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/proc")
# Not all of /etc: a program that root has started could read /etc/shadow and host keys.
CONFIGURATION = tuple(
    """
    alternatives ca-certificates crypto-policies fonts gai.conf gitconfig group host.conf hostname hosts
    ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime machine-id magic mime.types
    nsswitch.conf os-release passwd pki profile profile.d bash.bashrc inputrc protocols resolv.conf
    rpc services shells ssh/ssh_config ssh/ssh_config.d ssl terminfo timezone
    """.split()  # noqa: SIM905 - forty quoted names would hide the list
)
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables with the paths of certificates."""
OTHERS_READ = 0o005


def system_paths(environment: Mapping[str, str]) -> list[Path]:
    """Return the paths of the system, and of certificates that `environment` names."""
    fixed = [Path(path) for path in SYSTEM] + [Path("/etc", name) for name in CONFIGURATION]
    certificates = [Path(environment[name]) for name in CERTIFICATES if environment.get(name)]
    return [*fixed, *certificates, *resolver_directories()]


def python_directories(packages: Iterable[str]) -> list[Path]:
    """Return the directories of this Python, and of the source code of `packages`."""
    # Not sys.path: it may contain the directory where control was started, such as the user's home.
    specs = [find_spec(package) for package in packages]
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


def private_paths(code: Iterable[Path], read: Iterable[Path]) -> list[Path]:
    """Return those of `read` that contain code which other users than its owner cannot read."""
    # A path of code may be split where the state directory lies inside it.
    paths = [
        path
        for path in read
        if any(part.is_relative_to(path) or path.is_relative_to(part) for part in code)
    ]
    return [path for path in paths if path.stat().st_mode & OTHERS_READ != OTHERS_READ]

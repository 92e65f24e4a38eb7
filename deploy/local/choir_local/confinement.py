"""Confinement of services that untrusted input could take over.

`SERVICE_NEEDS` says what each confined service needs; all other paths do not exist for it. The other services
run as the stack's user: memory reads folders anywhere, and control starts agents.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from choir_common.confinement import MISSING_VARIABLE, script_path, users
from choir_common.confinement.paths import (
    DEVICES,
    exclude_home,
    outermost_paths,
    private_paths,
    python_directories,
    system_paths,
)
from choir_common.i18n import _
from choir_common.wire.browser import CHROMIUM_NAMES
from choir_local.home import Home
from choir_local.launch import Command

CONFINE = (sys.executable, "-I", "-S", script_path())
# What Chromium reads besides its own directory and the system's files.
CHROMIUM_FILES = (
    *("/etc/chromium", "/etc/chromium.d", "/etc/opt/chrome", "/opt/google"),
    *("/var/cache/fontconfig", "/usr/local/share/fonts"),
)
SNAP = _(
    "Chromium that can be confined: this one is a snap. Install another with "
    "`playwright install chromium`"
)


@dataclass(frozen=True, slots=True)
class ServiceNeeds:
    """What one service needs besides the system, Python, its state and its socket directory."""

    packages: tuple[str, ...]
    read: tuple[Path, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    obstacle: str = ""
    """Why the service cannot be confined here; empty if it can."""


def browser_needs(environment: Mapping[str, str], home: Path) -> ServiceNeeds:
    """Return the needs of the browser service: Chromium, wherever it is installed."""
    paths = [Path(path) for path in CHROMIUM_FILES]
    # The service has another home, so it has to be told where Playwright's browsers are.
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/"), ".cache"))
    browsers = environment.get("PLAYWRIGHT_BROWSERS_PATH") or str(cache / "ms-playwright")
    has_own = any(Path(browsers).glob("chromium-*"))
    if has_own:
        paths.append(Path(browsers).absolute())
    obstacle = ""
    if path := find_chromium(environment):
        program = Path(path).absolute()
        directory = program.resolve().parent
        # Not a directory that contains everything, such as the user's home.
        paths += [program, program.resolve() if home.is_relative_to(directory) else directory]
        if program.resolve().name == "snap" and not has_own:
            obstacle = SNAP
    return ServiceNeeds(
        ("choir_browser", "choir_common"),
        tuple(paths),
        {"PLAYWRIGHT_BROWSERS_PATH": browsers},
        obstacle,
    )


def find_chromium(environment: Mapping[str, str]) -> str | None:
    """Return the path of Chromium: the setting's, or the first on PATH."""
    on_path = (shutil.which(name, path=environment.get("PATH")) for name in CHROMIUM_NAMES)
    return environment.get("CHOIR_CHROMIUM") or next(filter(None, on_path), None)


SERVICE_NEEDS: Mapping[str, Callable[[Mapping[str, str], Path], ServiceNeeds]] = {
    "browser": browser_needs,
}


def confine(name: str, command: Command, home: Home) -> Command:
    """Return the command that runs `command` confined to what the service needs.

    Creates the directories of the service, and empties that of its state. Raises OSError.
    """
    state, sockets = home.service_state(name), home.service_sockets(name)
    shutil.rmtree(state, ignore_errors=True)
    for directory in (state, home.run / "view", sockets):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    needs = SERVICE_NEEDS[name](command.env, home.root.resolve())
    if needs.obstacle:
        reported = {MISSING_VARIABLE: orjson.dumps([needs.obstacle]).decode()}
        return replace(command, env={**command.env, **reported})
    code = [*python_directories(needs.packages), *needs.read]
    shared = outermost_paths([*system_paths(command.env), *code])
    read = outermost_paths(
        part for path in shared for part in exclude_home(path, home.root.resolve())
    )
    options: list[tuple[str, str | Path]] = [("--service", name), ("--chdir", state)]
    options.append(("--view", home.run / "view"))
    options += [("--read", path) for path in read]
    options += [("--write", path) for path in (state, sockets)]
    options += [("--device", path) for path in DEVICES if Path(path).exists()]
    if not users.find_obstacle():
        options.append(("--user", str(users.own_user(home.root, name))))
        options += [("--owned", path) for path in (state, sockets, *private_paths(code, read))]
    words = (os.fspath(word) for option in options for word in option)
    own = {**needs.environment, "HOME": str(state), "TMPDIR": str(state)}
    return replace(
        command,
        argv=(*CONFINE, *words, "--", *command.argv),
        env={**command.env, **own},
    )

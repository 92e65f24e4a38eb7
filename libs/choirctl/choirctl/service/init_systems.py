"""Programs that run services: systemd's `systemctl`, and `launchctl` on macOS.

Each installs, removes and reports one service. Their programs are found on PATH.
"""

import getpass
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict, InvalidRequest, StartupError
from choir_common.i18n import _
from choirctl.service.unit_files import (
    LABEL,
    SERVICE_USER,
    UNIT,
    ServiceSpec,
    launchd_plist,
    systemd_unit,
)

COMMAND_S = 180.0
"""A stop waits for agents that finish their turns."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What the operating system says about the service."""

    file: Path
    installed: bool
    enabled: bool
    active: bool


class ServiceManager(ABC):
    """One service of the operating system."""

    @property
    @abstractmethod
    def file(self) -> Path:
        """Return the path of the unit file."""

    @abstractmethod
    def render(self, service: ServiceSpec) -> str:
        """Return the text of the unit file."""

    @abstractmethod
    def install(self, service: ServiceSpec) -> None:
        """Write the unit file, enable and start the service. Raises StartupError."""

    @abstractmethod
    def uninstall(self) -> bool:
        """Stop and remove the service; return False if there is none. Raises StartupError."""

    @abstractmethod
    def state(self) -> ServiceState:
        """Return the state of the service."""

    def hints(self) -> list[str]:
        """Return what the operator may still want to do."""
        return []


class Systemd(ServiceManager):
    """A unit of systemd: of the current user, or with `system` of the machine."""

    def __init__(self, *, system: bool, directory: Path | None = None) -> None:
        self._system = system
        self._directory = directory or _unit_directory(system)

    @property
    def file(self) -> Path:
        """Return the path of the unit file."""
        return self._directory / UNIT

    def render(self, service: ServiceSpec) -> str:
        """Return the text of the unit file."""
        return systemd_unit(service)

    def install(self, service: ServiceSpec) -> None:
        """Write the unit file, enable and start the service. Raises StartupError."""
        # asked first, so that nothing is left behind where no manager answers
        if not _succeeds(self._command("show-environment")):
            raise StartupError(self._unreachable())
        if self._system:
            _create_user(service.home)
        _write(self.file, self.render(service))
        self._call("daemon-reload")
        self._call("enable", UNIT)
        self._call("restart", UNIT)

    def uninstall(self) -> bool:
        """Stop and remove the service; return False if there is none. Raises StartupError."""
        if not self.file.exists():
            return False
        self._call("disable", "--now", UNIT)
        self.file.unlink()
        self._call("daemon-reload")
        return True

    def state(self) -> ServiceState:
        """Return the state of the service."""
        return ServiceState(
            file=self.file,
            installed=self.file.exists(),
            enabled=_succeeds(self._command("is-enabled", "--quiet", UNIT)),
            active=_succeeds(self._command("is-active", "--quiet", UNIT)),
        )

    def hints(self) -> list[str]:
        """Return what the operator may still want to do."""
        unit = "--unit" if self._system else "--user-unit"
        hints: list[str] = [
            _("Its output: `journalctl {unit} {unit2}`.").format(unit=unit, unit2=UNIT)
        ]
        if not self._system and not _lingers(getpass.getuser()):
            hints.insert(
                0,
                _(
                    "It stops when you log out, and starts when you log in. To keep it running: "
                    "`sudo loginctl enable-linger {getuser}`."
                ).format(getuser=getpass.getuser()),
            )
        return hints

    def _unreachable(self) -> str:
        if self._system:
            return _("systemd does not answer `systemctl show-environment`: it does not run here.")
        return _(
            "The systemd of this user does not answer `systemctl --user show-environment`. "
            "Log in as this user (su and sudo open no session), or install with --system. "
            "`choirctl up --detach` needs none."
        )

    def _command(self, *words: str) -> list[str]:
        return ["systemctl", *(() if self._system else ("--user",)), *words]

    def _call(self, *words: str) -> None:
        _run(self._command(*words))


class Launchd(ServiceManager):
    """A LaunchAgent of the current user on macOS."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path.home() / "Library" / "LaunchAgents"
        self._domain = f"gui/{os.getuid()}"

    @property
    def file(self) -> Path:
        """Return the path of the property list."""
        return self._directory / f"{LABEL}.plist"

    def render(self, service: ServiceSpec) -> str:
        """Return the text of the property list."""
        return launchd_plist(service)

    def install(self, service: ServiceSpec) -> None:
        """Write the property list and load it. Raises StartupError."""
        # launchd creates the log file, but not its directory
        (service.home / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        self.uninstall()
        _write(self.file, self.render(service))
        _run(["launchctl", "bootstrap", self._domain, str(self.file)])

    def uninstall(self) -> bool:
        """Unload the service and remove its file; return False if there is none."""
        if not self.file.exists():
            return False
        if self.state().active:
            _run(["launchctl", "bootout", f"{self._domain}/{LABEL}"])
        self.file.unlink()
        return True

    def state(self) -> ServiceState:
        """Return the state of the service."""
        active = _succeeds(["launchctl", "print", f"{self._domain}/{LABEL}"])
        return ServiceState(self.file, self.file.exists(), self.file.exists(), active)


def find_manager(*, system: bool) -> ServiceManager:
    """Return this machine's service manager.

    Raises InvalidRequest if there is none, or if it has no such services.
    """
    if sys.platform == "darwin":
        if system:
            raise InvalidRequest(_("--system is not supported on macOS. Leave it out."))
        return Launchd()
    if shutil.which("systemctl") is None:
        raise InvalidRequest(
            _(
                "There is no systemctl here: this system does not use systemd. `choirctl up "
                "--detach` starts Choir in the background; --dry-run prints the unit."
            )
        )
    return Systemd(system=system)


def _unit_directory(system: bool) -> Path:
    if system:
        return Path("/etc/systemd/system")
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configuration) / "systemd" / "user"


def _create_user(home: Path) -> None:
    if _succeeds(["id", "--user", SERVICE_USER]):
        return
    shell = "/usr/sbin/nologin"
    words = ["--system", "--user-group", "--no-create-home", "--home-dir", str(home)]
    _run(["useradd", *words, "--shell", shell, SERVICE_USER])


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
    except OSError as error:
        advice = (
            _(" Use sudo, or leave out --system.") if isinstance(error, PermissionError) else ""
        )
        raise Conflict(
            _("{file} cannot be written: {strerror}.{advice}").format(
                file=file, strerror=error.strerror, advice=advice
            )
        ) from error


def _lingers(user: str) -> bool:
    words = ["loginctl", "show-user", user, "--property=Linger", "--value"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == "yes"


def _succeeds(words: Sequence[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=COMMAND_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _run(words: Sequence[str]) -> None:
    line = " ".join(words)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except OSError as error:
        raise StartupError(
            _("`{line}` cannot be run: {strerror}.").format(line=line, strerror=error.strerror)
        ) from error
    except subprocess.TimeoutExpired as error:
        raise StartupError(
            _("`{line}` took longer than {command_s:g} s.").format(line=line, command_s=COMMAND_S)
        ) from error
    if done.returncode != 0:
        reason = done.stderr.strip() or _("exit code {returncode}").format(
            returncode=done.returncode
        )
        raise StartupError(f"`{line}` failed: {reason}")

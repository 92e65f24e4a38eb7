"""The service: its unit file, and what is asked of systemd, by a strict fake of `systemctl`."""

import os
import plistlib
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest, StartupError
from choirctl.commands.uninstall import check_home
from choirctl.service.init_systems import Systemd
from choirctl.service.unit_files import (
    UNIT,
    ServiceSpec,
    launchd_plist,
    systemd_unit,
    unreadable_parent,
)
from tests.support.shell import ChoirctlRunner

PROGRAM = ("/usr/bin/env", "-P", "-m", "choirctl", "up", "--no-chat")
# Keys that Choir uses, with their types as in launchd.plist(5). launchd ignores a key that it does not know.
LAUNCHD_KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "Umask": int,
    "ProcessType": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}
# Answers as systemctl 257 does: 1 and a message for what it does not know, a state for the questions.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$0.calls"
[ "$1" = --user ] || { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
shift
case "$*" in
    daemon-reload | show-environment) ;;
    "enable choir.service") touch "$0.enabled" ;;
    "restart choir.service")
        [ -e "$UNITS/choir.service" ] || { echo "Unit choir.service not found." >&2; exit 5; }
        touch "$0.active" ;;
    "disable --now choir.service") rm -f "$0.enabled" "$0.active" ;;
    "is-enabled --quiet choir.service") test -e "$0.enabled" ;;
    "is-active --quiet choir.service") test -e "$0.active" || exit 3 ;;
    *) echo "Unknown command verb '$*'." >&2; exit 1 ;;
esac
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake of systemctl first on PATH."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("UNITS", str(tmp_path / "units"))
    return program


@pytest.mark.parametrize("system", [False, True], ids=["user", "system"])
def test_systemd_accepts_the_unit(tmp_path: Path, system: bool) -> None:
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed: `apt install systemd`")
    home = Path("/var/lib/choir") if system else tmp_path / 'a "quoted" 100% $home'
    unit = tmp_path / UNIT
    unit.write_text(systemd_unit(ServiceSpec(PROGRAM, home, system)))
    words = [verifier, "verify", "--man=no", *([] if system else ["--user"]), str(unit)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    faults = [line for line in done.stderr.splitlines() if UNIT in line]
    assert not faults and done.returncode in (0, 1), done.stderr


def test_a_unit_leaves_out_what_would_break_the_confinement_of_agents() -> None:
    for system in (False, True):
        unit = systemd_unit(ServiceSpec(PROGRAM, Path("/var/lib/choir"), system))
        names = {line.partition("=")[0] for line in unit.splitlines()}
        assert "NoNewPrivileges" in names and ("User" in names) is system
        assert not names & {
            *("RestrictNamespaces", "SystemCallFilter", "MemoryDenyWriteExecute", "PrivateUsers"),
            *("ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProtectProc"),
            *("ProtectControlGroups", "ProcSubset"),
        }


def test_a_home_with_special_characters_is_quoted() -> None:
    unit = systemd_unit(ServiceSpec(("/opt/$x/python", 'a "b"'), Path("/srv/50% $HOME")))
    assert 'ExecStart="/opt/$$x/python" "a \\"b\\""\n' in unit
    assert 'Environment="CHOIR_HOME=/srv/50%% $HOME"\n' in unit


def test_the_property_list_of_macos_runs_the_same_program() -> None:
    content = plistlib.loads(
        launchd_plist(ServiceSpec(PROGRAM, Path("/Users/ann/.choir.d"))).encode()
    )
    assert content["ProgramArguments"] == list(PROGRAM)
    assert content["EnvironmentVariables"] == {"CHOIR_HOME": "/Users/ann/.choir.d"}
    assert content["RunAtLoad"] and content["KeepAlive"] == {"SuccessfulExit": False}
    assert {name: type(value) for name, value in content.items()} == LAUNCHD_KEYS
    assert isinstance(content["KeepAlive"]["SuccessfulExit"], bool)
    assert content["ProcessType"] in ("Background", "Standard", "Adaptive", "Interactive")
    assert Path(content["StandardOutPath"]).is_absolute()


def test_a_service_is_installed_reported_and_removed(tmp_path: Path, systemctl: Path) -> None:
    manager = Systemd(system=False, directory=tmp_path / "units")
    assert not manager.state().installed
    manager.install(ServiceSpec(PROGRAM, tmp_path))
    state = manager.state()
    assert state.installed and state.enabled and state.active
    assert "choirctl" in state.file.read_text()
    assert any("journalctl" in hint for hint in manager.hints())
    assert manager.uninstall()
    assert not manager.file.exists() and not manager.state().active
    assert not manager.uninstall()
    calls = Path(f"{systemctl}.calls").read_text().splitlines()
    assert [call for call in calls if "is-" not in call] == [
        "--user show-environment",
        "--user daemon-reload",
        "--user enable choir.service",
        "--user restart choir.service",
        "--user disable --now choir.service",
        "--user daemon-reload",
    ]


@pytest.mark.usefixtures("systemctl")
def test_a_failure_of_systemctl_is_reported_with_its_words(tmp_path: Path) -> None:
    manager = Systemd(system=True, directory=tmp_path / "units")
    manager.file.parent.mkdir()
    manager.file.write_text("")
    with pytest.raises(StartupError, match="it does not run here"):
        manager.install(ServiceSpec(PROGRAM, tmp_path, system=True))
    with pytest.raises(
        StartupError, match=r"systemctl disable --now choir.service` failed: Failed to"
    ):
        manager.uninstall()


def test_only_a_state_directory_of_choir_is_purged(tmp_path: Path) -> None:
    for place in (Path("/"), Path.home(), tmp_path):
        with pytest.raises(InvalidRequest, match="nothing was deleted"):
            check_home(place)
    for name in ("secrets.json", "config.json", "data"):
        (tmp_path / name).mkdir()
    check_home(tmp_path)


def test_a_directory_that_the_services_user_cannot_enter_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "open" / "closed" / "bin"
    inner.mkdir(parents=True)
    (tmp_path / "open" / "closed").chmod(0o700)
    found = unreadable_parent((inner / "python",))
    assert found is not None and (found == inner.parent or found in inner.parents)


def test_the_commands_install_report_and_remove_the_service_of_one_home(
    tmp_path: Path, systemctl: Path
) -> None:
    units = tmp_path / "units"
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "user").symlink_to(units)
    units.mkdir()
    path = f"{systemctl.parent}:{os.environ['PATH']}"
    env = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": path, "UNITS": str(units)}
    shell, other = (ChoirctlRunner(tmp_path / name, env) for name in ("home", "other"))
    assert Path(shell.data("service", "install")["file"]).resolve() == units / UNIT
    assert f'CHOIR_HOME={shell.home}"' in (units / UNIT).read_text()
    assert shell.data("service", "status")["active"]
    for runner in (other, shell):
        (runner.home / "data").mkdir(parents=True)
        for name in ("secrets.json", "config.json"):
            (runner.home / name).touch()
    assert other.data("uninstall", "--yes")["services"] == []
    assert other.home.exists() and (units / UNIT).exists(), "it belongs to another home"
    done = shell.data("uninstall", "--purge", "--yes")
    assert done["purged"] and len(done["services"]) == 1
    assert not shell.home.exists() and not (units / UNIT).exists()
    shell.succeeds("service", "uninstall")

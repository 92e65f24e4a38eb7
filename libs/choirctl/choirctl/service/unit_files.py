"""Text of the unit file that runs Choir: systemd's for a user or for the machine, or launchd's.

Pure functions. The hardening of the units leaves out what agents' confinement needs: RestrictNamespaces and
SystemCallFilter (Landlock, seccomp and namespaces of tool calls and Chromium), MemoryDenyWriteExecute (V8),
and ProtectKernelTunables, ProtectKernelLogs, ProtectHostname, ProtectProc and ProtectControlGroups: these
cover parts of /proc or /sys, and the kernel then refuses tool calls a /proc of their own.
"""

import plistlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

UNIT = "choir.service"
LABEL = "choir.agents"
SERVICE_USER = "choir"
SYSTEM_HOME = Path("/var/lib/choir")
STOP_WITHIN_S = 150
"""Agents finish their turns and write summaries first, which takes `choirctl down` 120 s at most."""
ENVIRONMENT_FILE = "service.env"
"""Optional file in the state directory with variables of the service, such as proxies."""
SHARED = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
UMask=0077
"""
# Only the system's manager can use these without user namespaces of its own.
SYSTEM_ONLY = """\
CapabilityBoundingSet=
AmbientCapabilities=
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=full
ProtectHome=read-only
ProtectClock=yes
ProtectKernelModules=yes
"""


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What the service runs."""

    program: tuple[str, ...]
    """The command line that runs Choir in the foreground."""
    home: Path
    system: bool = False
    """A service of the machine with a user of its own, instead of one of the current user."""


def systemd_unit(service: ServiceSpec) -> str:
    """Return the unit file."""
    network = "Wants=network-online.target\nAfter=network-online.target\n"
    own_user = (
        f"User={SERVICE_USER}\nGroup={SERVICE_USER}\n"
        f"StateDirectory={service.home.name}\nStateDirectoryMode=0700\n"
    )
    return f"""\
# Written by `choirctl service install`, which replaces it; put changes into a drop-in: `systemctl edit`.
[Unit]
Description=Choir: self-hosted personal LLM agents
{network if service.system else ""}StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=exec
ExecStart={" ".join(_quoted(word) for word in service.program)}
Environment={_quoted(f"CHOIR_HOME={service.home}", variables=False)}
EnvironmentFile=-{_specifiers(str(service.home / ENVIRONMENT_FILE))}
{own_user if service.system else ""}Restart=on-failure
RestartSec=5
# `choirctl up` ends with 130 after a signal
SuccessExitStatus=130
# the supervisor stops its children in order; what then remains is killed
KillMode=mixed
TimeoutStopSec={STOP_WITHIN_S}
# agents get control groups of their own below the service's
Delegate=yes
{SHARED}{SYSTEM_ONLY if service.system else ""}
[Install]
WantedBy={"multi-user" if service.system else "default"}.target
"""


def launchd_plist(service: ServiceSpec) -> str:
    """Return the property list of a LaunchAgent."""
    log = str(service.home / "logs" / "service.log")
    content = {
        "Label": LABEL,
        "ProgramArguments": list(service.program),
        "EnvironmentVariables": {"CHOIR_HOME": str(service.home)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 5,
        "ExitTimeOut": STOP_WITHIN_S,
        "Umask": 0o077,
        "ProcessType": "Interactive",  # launchd slows down the others
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(content).decode()


def unreadable_parent(paths: Sequence[Path]) -> Path | None:
    """Return the first directory on the way to one of `paths` that other users may not enter, if any."""
    for path in paths:
        for parent in reversed(path.absolute().parents):
            if not parent.stat().st_mode & 0o001:
                return parent
    return None


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str, *, variables: bool = True) -> str:
    """Quote a word for systemd; `variables` are expanded in commands only."""
    text = _specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + (text.replace("$", "$$") if variables else text) + '"'

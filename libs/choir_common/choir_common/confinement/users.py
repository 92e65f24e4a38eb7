"""Users of confined programs: numbers that no account of the host has.

A program that root starts gets a user of its own, which is derived from its name and the state directory.
No file on disk belongs to these users: mounts translate the owner, so that no file has to be changed.
"""

import hashlib
import os
from pathlib import Path

from choir_common.confinement.words import _

FIRST_UID = 2_100_000_000
"""Above what distributions, systemd's containers and directory services (SSSD) assign, and below 2^31."""
UIDS = 1 << 24
NEEDED_CAPABILITIES = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SYS_ADMIN": 21}


def own_user(home: Path, name: str) -> int:
    """Return the user id of the program `name` of the installation in `home`."""
    digest = hashlib.sha256(f"{home}\0{name}".encode()).digest()
    return FIRST_UID + int.from_bytes(digest[:8], "big") % UIDS


def find_obstacle() -> str:
    """Return why this process cannot start programs as other users, or an empty text if it can."""
    if os.geteuid() != 0:
        return _("Choir does not run as root")
    status = Path("/proc/self/status")
    if not status.exists():
        return _("this system has no /proc")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    capabilities = int(lines["CapEff"], 16)
    missing = [
        name for name, number in NEEDED_CAPABILITIES.items() if not capabilities >> number & 1
    ]
    if missing:
        return _("root lacks {missing}").format(missing=", ".join(missing))
    for name in ("uid_map", "gid_map"):
        ranges = [line.split() for line in Path("/proc/self", name).read_text().splitlines()]
        if not any(
            int(first) <= FIRST_UID and int(first) + int(count) >= FIRST_UID + UIDS
            for first, _, count in ranges
        ):
            return _("this container has too few user ids")
    return ""

"""Selection of the user under which Postgres runs, because it refuses to run as root.

An ordinary user runs it as itself. Root, and a user without a passwd entry (common in containers), map
themselves to an unprivileged user in a user namespace: on disk the files keep their owner and mode. If
namespaces are blocked, root becomes `nobody`.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_local import child_start

PROBE_S = 10.0


@dataclass(frozen=True, slots=True)
class ProcessUser:
    """The user of a child process, as an argument of `child_start`, and the owner of its files."""

    text: str
    owner_uid: int | None = None
    """User id that owns the child's files; None means the caller."""
    owner_gid: int | None = None


SAME_USER = ProcessUser("same")


def unprivileged_identity() -> ProcessUser:
    """Return an identity under which Postgres starts on this machine.

    Raises StartupError if there is none.
    """
    if os.geteuid() != 0 and _has_passwd_entry(os.geteuid()):
        return SAME_USER
    stand_in = _stand_in()
    mapped = ProcessUser(f"mapped:{stand_in.pw_uid}:{stand_in.pw_gid}", os.geteuid(), os.getegid())
    if sys.platform == "linux" and _works(mapped):
        return mapped
    lowered = ProcessUser(
        f"lowered:{stand_in.pw_uid}:{stand_in.pw_gid}", stand_in.pw_uid, stand_in.pw_gid
    )
    if sys.platform == "linux" and os.geteuid() == 0 and _works(lowered):
        return lowered
    raise StartupError(
        _(
            "Postgres refuses to run as root, and this machine allows neither user "
            "namespaces nor a change of user. Start Choir as an ordinary user, or allow user "
            "namespaces (sysctl user.max_user_namespaces)."
        )
    )


def _has_passwd_entry(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _stand_in() -> pwd.struct_passwd:
    """Return an unprivileged user that exists here, because initdb looks up its name."""
    others = sorted((user for user in pwd.getpwall() if user.pw_uid != 0), key=lambda u: u.pw_uid)
    for user in others:
        if user.pw_name == "nobody":
            return user
    if others:
        return others[0]
    raise StartupError(
        _(
            "Postgres refuses to run as root, and /etc/passwd names no other user. Add one "
            "(for example nobody) or start Choir as an ordinary user."
        )
    )


def _works(identity: ProcessUser) -> bool:
    """Test `identity` with a child that does nothing else."""
    script = Path(child_start.__file__)
    tried = subprocess.run(
        [sys.executable, "-I", "-S", str(script), str(os.getpid()), "9", identity.text],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PROBE_S,
        check=False,
    )
    return tried.returncode == 0

"""Setup of a child process, which then executes the real program under the same pid.

`launch.py` runs this file as a script (`python -I -S child_start.py …`), so it imports only the standard
library. It runs between fork and exec because `preexec_fn` may deadlock in a process with threads.

Arguments: parent pid, death signal, identity (`same`, `mapped:UID:GID` or `lowered:UID:GID`), then the
program and its arguments; without a program it only tests the identity.
"""

import ctypes
import os
import struct
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CLONE_NEWUSER = 0x10000000
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1


def map_user(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    """Enter a user namespace in which this process is `uid`; outside, files stay the caller's.

    Raises OSError if user namespaces are not allowed.
    """
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWUSER)")
    for name, text in (
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib doubles the start time
            file.write(text)


def lower_user(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    """Become `uid` permanently, keeping only the capability to access files below a private home."""
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    bit = 1 << CAP_DAC_OVERRIDE
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    # Without that capability the call fails, and the program works only if `uid` can open its paths.
    if libc.capset(header, struct.pack("6I", bit, bit, bit, 0, 0, 0)) == 0:
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def set_user(libc: ctypes.CDLL, identity: str) -> None:
    """Become the user that `identity` names."""
    kind, *ids = identity.split(":")
    if kind == "mapped":
        map_user(libc, int(ids[0]), int(ids[1]))
    elif kind == "lowered":
        lower_user(libc, int(ids[0]), int(ids[1]))


def start(parent: int, death_signal: int, identity: str, argv: list[str]) -> None:
    """Take the identity, tie this process's life to the parent's and execute `argv`."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_user(libc, identity)
    if sys.platform == "linux":
        # After the identity: a change of credentials clears the death signal.
        libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the supervisor has exited")
    if argv:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    try:
        start(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    except OSError as error:
        sys.exit(f"cannot start {' '.join(sys.argv[4:5]) or 'a process'}: {error}")

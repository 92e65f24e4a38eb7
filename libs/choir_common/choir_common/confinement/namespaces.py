"""Namespaces of a process, and user namespaces that translate the owners of files."""

import fcntl
import os
import socket
import sys
from collections.abc import Iterable

from choir_common.confinement.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    Kernel,
)

SIOCSIFFLAGS, IFF_UP = 0x8914, 1

LAST_ID = (1 << 32) - 2
"""The highest user or group id; the one above means none."""


def enter_namespaces(kernel: Kernel, network: str) -> None:
    """Leave the host's mount and IPC namespaces, and with network `none` its network.

    An unprivileged user needs a user namespace for it.
    """
    kinds = CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if network == "none" else 0)
    if os.geteuid() == 0:
        kernel.call("unshare", kinds)
    else:
        uid, gid = os.geteuid(), os.getegid()
        kernel.call("unshare", CLONE_NEWUSER | kinds)
        map_user_to_itself(uid, gid)
    if network == "none":
        enable_loopback()


def enable_loopback() -> None:
    """Set the loopback interface of a new network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = b"lo".ljust(16, b"\0") + IFF_UP.to_bytes(2, sys.byteorder)
        fcntl.ioctl(control, SIOCSIFFLAGS, request.ljust(40, b"\0"))


def map_user_to_itself(uid: int, gid: int) -> None:
    """Give this process's new user namespace the user's own ids, which it does not know by itself."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib doubles the start time
            file.write(text)


def translate_owners(kernel: Kernel, paths: Iterable[str], user: int) -> dict[str, int]:
    """Return for each path a copy of its mounts in which its owner's files belong to `user`.

    Raises OSError if a file system does not support it.
    """
    namespaces: dict[tuple[int, int], int] = {}
    copies = {}
    for path in paths:
        info = os.stat(path)  # noqa: PTH116 - pathlib doubles the start time
        owner = (info.st_uid, info.st_gid)
        if owner not in namespaces:
            namespaces[owner] = _make_translation(kernel, owner, user)
        copies[path] = kernel.clone_mount(path, namespaces[owner])
    for namespace in namespaces.values():
        os.close(namespace)
    return copies


def id_map(owner: int, user: int) -> str:
    """Return the lines of a map from ids on disk to ids in a mount: `owner` is `user`, all others themselves.

    Nobody may write a file whose owner or group has no id.
    """
    low, high = sorted((owner, user))
    ranges = (
        (0, 0, low),
        (owner, user, 1),
        (low + 1, low + 1, high - low - 1),
        (high + 1, high + 1, LAST_ID - high),
    )
    return "".join(f"{first} {to} {count}\n" for first, to, count in ranges if count > 0)


def _make_translation(kernel: Kernel, owner: tuple[int, int], user: int) -> int:
    """Return a user namespace that maps an owner and group to `user`; a helper process makes it."""
    reader, writer = os.pipe()
    pid = kernel.fork(CLONE_NEWUSER)
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        for name, number in zip(("uid_map", "gid_map"), owner, strict=True):
            with open(f"/proc/{pid}/{name}", "w") as file:  # noqa: PTH123 - as above
                file.write(id_map(number, user))
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(reader)
        os.close(writer)
        os.waitpid(pid, 0)

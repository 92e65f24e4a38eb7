"""View: a root directory in which only the given paths exist.

Every other Unix socket of the user is then out of reach, which Landlock does not restrict connecting to.
"""

import os
import stat
from pathlib import Path

from choir_common.confinement.kernel import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    Kernel,
)
from choir_common.confinement.namespaces import translate_owners
from choir_common.confinement.options import ConfinementOptions

MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
SHARED_MEMORY = "/dev/shm"  # noqa: S108 a private one, made in the view
PROC = "/proc"
VISIBLE_UMASK = 0o022
"""For the directories above the paths, which the program's user must be able to enter."""


def build_view(kernel: Kernel, options: ConfinementOptions) -> None:
    """Build a root directory in which only the given paths exist, and make it the process's root.

    Raises OSError. The caller may then try again without a user.
    """
    kernel.mount("", "/", "", MS_REC | MS_PRIVATE)
    if options.service:
        kernel.mount_proc(0)  # that of its own PID namespace
    translated = translate_owners(kernel, options.owned, options.user) if options.user else {}
    paths = sorted({*options.read, *options.write, *options.device})
    # Opened first, because the new root may cover some of them while it is built.
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    root = options.view
    kernel.mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    umask = os.umask(VISIBLE_UMASK)
    try:
        if options.user:
            add_user_names(root, options.user, options.chdir)
        for path, source in sources.items():
            bind_path(kernel, path, source, options, translated)
            os.close(source)
        add_standard_devices(kernel, root, options.user)
    finally:
        os.umask(umask)
    kernel.make_read_only(root, deep=False)
    os.chdir(root)
    # Stacks the old root below the new one, from where it is unmounted.
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def bind_path(
    kernel: Kernel,
    path: str,
    source: int,
    options: ConfinementOptions,
    translated: dict[str, int],
) -> None:
    """Bind one path into the new root, under its own name."""
    target = Path(options.view + path)
    writable = path not in options.read or (path == PROC and options.writes_proc)
    if os.path.lexists(target):
        if not writable:
            return  # already visible through a directory above it
    elif os.path.islink(path):  # noqa: PTH114 /bin stays a link; its target is listed, too
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.readlink(path))  # noqa: PTH115
        return
    elif stat.S_ISDIR(os.fstat(source).st_mode):
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    if path in translated:
        kernel.attach_mount(translated[path], str(target))
        os.close(translated[path])
    else:
        kernel.mount(f"/proc/self/fd/{source}", str(target), "", MS_BIND | MS_REC)
    if not writable:
        kernel.make_read_only(str(target), deep=True)


def add_user_names(root: str, user: int, home: str) -> None:
    """Write /etc/passwd and /etc/group with a name for the user: ssh refuses to run without one."""
    entries = {"passwd": f"choir:x:{user}:{user}::{home}:/bin/sh\n", "group": f"choir:x:{user}:\n"}
    Path(root, "etc").mkdir(exist_ok=True)
    for name, entry in entries.items():
        host = Path("/etc", name)
        others = host.read_text() if host.exists() else ""
        Path(root, "etc", name).write_text(others + entry)


def add_standard_devices(kernel: Kernel, root: str, user: int) -> None:
    """Add what programs expect besides the devices: /dev/fd, /dev/shm, /tmp."""
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        Path(root + "/dev", name).symlink_to(target)
    shared = Path(root + SHARED_MEMORY)
    shared.mkdir()
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    owner = f",uid={user},gid={user}" if user else ""
    kernel.mount("tmpfs", str(shared), "tmpfs", flags, f"size=64m,mode=0700{owner}")
    usual = Path(root + "/tmp")  # noqa: S108 the place programs use without asking
    if "TMPDIR" in os.environ and not usual.exists():
        usual.symlink_to(os.environ["TMPDIR"])

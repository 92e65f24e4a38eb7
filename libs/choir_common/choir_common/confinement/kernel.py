"""System calls that Python does not offer; each raises OSError."""

import ctypes
import os
import signal
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = 1, 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 0x100000
MOUNT_ATTRIBUTES_BYTES = 32
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
SYS_CLONE3 = 435
"""The number that all processors share."""
CLONE_INTO_CGROUP = 0x200000000
CLONE_ARGUMENTS = 11
"""64-bit fields of clone3's structure: flags first, the signal at the end fifth, the cgroup last."""
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1


class Kernel:
    """System calls on this process."""

    def __init__(self) -> None:
        # PyDLL keeps the interpreter's lock, which a child made by `clone` needs in a known state.
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self.machine = os.uname().machine

    def call(self, name: str, *arguments: object) -> int:
        """Call a function of libc."""
        result = int(getattr(self._libc, name)(*arguments))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return result

    def prctl(self, option: int, first: int = 0, second: object = 0) -> None:
        """Call prctl, which changes an attribute of this process."""
        last = ctypes.c_ulong(second) if isinstance(second, int) else second
        zero = ctypes.c_ulong(0)
        self.call("prctl", option, ctypes.c_ulong(first), last, zero, zero)

    def syscall(self, number: int, *arguments: object) -> int:
        """Make any system call."""
        return self.call("syscall", ctypes.c_long(number), *arguments)

    def fork(self, namespaces: int) -> int:
        """Fork into new namespaces; return 0 in the child. For processes with one thread."""
        if not namespaces:
            return os.fork()
        zeros = [ctypes.c_ulong(0)] * 4
        flags = ctypes.c_ulong(namespaces | signal.SIGCHLD)
        return self.syscall(SYS_CLONE[self.machine], flags, *zeros)

    def fork_into_cgroup(self, directory: int) -> int:
        """Fork into the cgroup of an open directory; return 0 in the child. For processes with one thread."""
        fields = [0] * CLONE_ARGUMENTS
        fields[0], fields[4], fields[-1] = CLONE_INTO_CGROUP, signal.SIGCHLD, directory
        arguments = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
        return self.syscall(SYS_CLONE3, arguments, ctypes.c_size_t(len(arguments)))

    def mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        """Mount `source` at `target`."""
        texts = [os.fsencode(text) or None for text in (source, target, kind)]
        self.call("mount", *texts, ctypes.c_ulong(flags), os.fsencode(data) or None)

    def mount_proc(self, flags: int, target: str = "/proc") -> None:
        """Mount the file tree of this process's PID namespace."""
        self.mount("proc", target, "proc", flags | MS_NOSUID | MS_NODEV | MS_NOEXEC)

    def make_read_only(self, target: str, *, deep: bool) -> None:
        """Make the mount at `target` read-only, and with `deep` those below it."""
        attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
        flags = AT_RECURSIVE if deep else 0
        where = os.fsencode(target)
        self.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, where, flags, attributes, MOUNT_ATTRIBUTES_BYTES)

    def clone_mount(self, source: str, user_namespace: int) -> int:
        """Return a copy of the mounts at `source`, with owners translated by a user namespace's maps.

        Raises OSError if the file system or the kernel (before Linux 5.12) does not support it.
        """
        flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
        tree = self.syscall(SYS_OPEN_TREE, AT_FDCWD, os.fsencode(source), flags)
        attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, user_namespace)
        flags = AT_EMPTY_PATH | AT_RECURSIVE
        try:
            self.syscall(SYS_MOUNT_SETATTR, tree, b"", flags, attributes, MOUNT_ATTRIBUTES_BYTES)
        except OSError:
            os.close(tree)
            raise
        return tree

    def attach_mount(self, tree: int, target: str) -> None:
        """Attach what `clone_mount` returned at `target`."""
        where = os.fsencode(target)
        self.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH)

    def drop_capabilities(self, user: int = 0) -> None:
        """Drop every capability permanently, including those that root would regain at exec.

        With `user`, become this user and group, too.
        """
        self.limit_capabilities()
        if user:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        self.drop_held_capabilities()

    def limit_capabilities(self) -> None:
        """Let no program regain capabilities at exec; this process keeps those that it holds."""
        for capability in range(LAST_CAPABILITY + 1):
            try:
                self.prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                break  # past the kernel's last capability, or none is held that could be regained

    def drop_held_capabilities(self) -> None:
        """Drop the capabilities that this process holds."""
        self.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        header = CAPABILITY_VERSION_3.to_bytes(4, sys.byteorder) + bytes(4)
        self.call("capset", header, bytes(24))

    def join_own_keyring(self) -> None:
        """Leave the session keyring of the user for a new one; where keyctl is forbidden, do nothing."""
        try:
            number = SYS_KEYCTL[self.machine]
            self.syscall(number, ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None)
        except (OSError, KeyError):
            return  # no keyrings here, or an outer filter forbids them to the program as well

"""Landlock: what a program may do with files, and to which processes it may send signals.

A process in a Landlock domain cannot trace or read a process outside it, on every version of the interface.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable

from choir_common.confinement.kernel import Kernel

SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1, 2, 4, 8
FS_MAKE_CHAR, FS_MAKE_BLOCK, FS_REFER = 1 << 6, 1 << 11, 1 << 13
FS_TRUNCATE, FS_IOCTL_DEV = 1 << 14, 1 << 15
FS_FIRST_ABI = (1 << 13) - 1
FS_ADDED_BY_ABI = {2: FS_REFER, 3: FS_TRUNCATE, 5: FS_IOCTL_DEV}
FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV
ANY = (FS_FIRST_ABI | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV) & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK)
READ = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR
WRITE = ANY & ~FS_IOCTL_DEV
DEVICE = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
# Needed to start a dynamically linked program.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")

Rule = tuple[str, int]
"""A path and the rights on it and below it."""


def supported_abi(kernel: Kernel, newest: int) -> int:
    """Return the version of the interface, at most `newest`; 0 if the kernel has none."""
    if sys.platform != "linux":
        return 0
    try:
        return min(newest, kernel.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    except OSError:
        return 0


def restrict_files(kernel: Kernel, abi: int, rules: Iterable[Rule]) -> None:
    """Put this process and its children into a new domain with these rules; needs an `abi` of 1 or more."""
    handled_rights = FS_FIRST_ABI
    for version, right in FS_ADDED_BY_ABI.items():
        handled_rights |= right if abi >= version else 0
    scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS
    fields = (handled_rights, 0, scopes)[: 1 if abi < 4 else 2 if abi < 6 else 3]
    shape = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
    ruleset = kernel.syscall(SYS_CREATE_RULESET, shape, ctypes.c_size_t(len(shape)), 0)
    for path, rights in rules:
        _add_rule(kernel, ruleset, path, rights & handled_rights)
    kernel.syscall(SYS_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def reading_rules(paths: Iterable[str], runnable: Iterable[str] = ()) -> list[Rule]:
    """Return the rules of a program that may read `paths`, and write nothing but to /dev/null.

    In `runnable` it may also start programs.
    """
    rules = [(path, READ) for path in (*SYSTEM, *runnable)]
    rules.append(("/dev/null", DEVICE))
    for path in paths:
        is_directory = os.path.isdir(path)  # noqa: PTH112 - pathlib would slow down each start
        rules.append((path, FS_READ_FILE | (FS_READ_DIR if is_directory else FS_EXECUTE)))
    return rules


def _add_rule(kernel: Kernel, ruleset: int, path: str, rights: int) -> None:
    """Add a rule for one path; a missing path needs no rule."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= FS_OF_FILES
    rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
    kernel.syscall(SYS_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
    os.close(descriptor)

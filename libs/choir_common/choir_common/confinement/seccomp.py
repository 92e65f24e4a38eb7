"""System calls that programs of tool calls and services must not make, as a seccomp filter.

Denied is what Docker's default profile denies to a container without capabilities, and besides: personality,
modify_ldt, all sockets but local and Internet ones, and every system call that is newer than this list.
"""

import ctypes
import errno
import struct
import sys
from collections.abc import Sequence

from choir_common.confinement.kernel import PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SYS_CLONE3, Kernel

# BPF: load a 32-bit word of seccomp_data, compare, return.
LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = (
    *(0x20, 0x15, 0x25, 0x35, 0x45),
    0x06,
)
AT_NUMBER, AT_ARCHITECTURE, AT_FIRST_ARGUMENT = 0, 4, 16
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_NUMBERS = 0x40000000
NEWEST_CALL = 469
"""file_setattr of Linux 6.17, the newest system call that this list takes into account."""
NEW_NAMESPACES = 0x7E020000
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

# acct add_key bpf clock_adjtime clock_settime delete_module finit_module init_module kcmp kexec_file_load
# kexec_load keyctl lookup_dcookie mount nfsservctl open_by_handle_at perf_event_open personality pivot_root
# quotactl reboot request_key setns settimeofday swapoff swapon umount2 unshare userfaultfd vhangup syslog
# chroot fanotify_init mbind set_mempolicy get_mempolicy migrate_pages move_pages sethostname setdomainname
DENIED = {
    "x86_64": (
        *(163, 248, 321, 305, 227, 176, 313, 175, 312, 320, 246, 250, 212, 165, 180, 304, 298, 135),
        *(155, 179, 169, 249, 308, 164, 168, 167, 166, 272, 323, 153, 103, 161, 300, 237, 238, 239),
        *(256, 279, 170, 171),
        # create_module get_kernel_syms query_module ioperm iopl modify_ldt sysfs _sysctl uselib ustat
        *(174, 177, 178, 173, 172, 154, 139, 156, 134, 136),
    ),
    "aarch64": (
        *(89, 217, 280, 266, 112, 106, 273, 105, 272, 294, 104, 219, 18, 40, 42, 265, 241, 92),
        *(41, 60, 142, 218, 268, 170, 225, 224, 39, 97, 282, 58, 116, 51, 262, 235, 237, 236),
        *(238, 239, 161, 162),
    ),
}
DENIED_EVERYWHERE = (
    # io_uring_setup io_uring_enter io_uring_register, pidfd_getfd process_madvise quotactl_fd
    *(425, 426, 427, 438, 440, 443),
    # open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr, home_node
    *(428, 429, 430, 431, 432, 433, 442, 467, 450),
)
"""Numbers that all processors share."""
TRACING = {"x86_64": (101, 310, 311), "aarch64": (117, 270, 271)}
"""ptrace, process_vm_readv, process_vm_writev: debuggers of the call's own processes need them."""
SANDBOXES = {"x86_64": {272, 161}, "aarch64": {97, 51}}
"""unshare, chroot."""
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}

Step = tuple[int, int, str]
"""An instruction: its code, its operand, and the label to jump to if the comparison is true."""


def is_supported(kernel: Kernel) -> bool:
    """Return whether this kernel takes filters, and this module has a list for its processor."""
    if sys.platform != "linux" or kernel.machine not in ARCHITECTURES:
        return False
    try:
        kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, None)
    except OSError as error:
        # A kernel without seccomp does not look at the missing filter.
        return error.errno == errno.EFAULT
    return False


def build_filter(machine: str, *, offline: bool, tracing: bool, sandboxes: bool = False) -> bytes:
    """Return the filter for a processor; raises KeyError for an unknown one.

    With `offline` no socket can be made. Without `tracing` no process can be traced. With `sandboxes` the
    program can make namespaces and change its root, which Chromium does to lock up its own processes.
    """
    denied = {*DENIED[machine], *DENIED_EVERYWHERE, *(() if tracing else TRACING[machine])}
    if sandboxes:
        denied -= SANDBOXES[machine]
    families = () if offline else (AF_UNIX, AF_INET, AF_INET6)
    steps: list[Step | str] = [
        (LOAD, AT_ARCHITECTURE, ""),
        (JUMP_EQUAL, ARCHITECTURES[machine], "known"),
        # Another calling convention has other numbers, which this filter cannot check.
        (RETURN, KILL, ""),
        "known",
        (LOAD, AT_NUMBER, ""),
        (JUMP_AT_LEAST, X32_NUMBERS, "refuse"),
        (JUMP_ABOVE, NEWEST_CALL, "unknown"),
        # Its flags are in memory, which a filter cannot read; programs then use clone.
        (JUMP_EQUAL, SYS_CLONE3, "unknown"),
        *((JUMP_EQUAL, number, "refuse") for number in sorted(denied)),
        (JUMP_EQUAL, SOCKET[machine], "socket"),
        (JUMP_EQUAL, CLONE[machine], "allow" if sandboxes else "clone"),
        (RETURN, ALLOW, ""),
        "socket",
        (LOAD, AT_FIRST_ARGUMENT, ""),
        *((JUMP_EQUAL, family, "allow") for family in families),
        (RETURN, REFUSE, ""),
        "clone",
        (LOAD, AT_FIRST_ARGUMENT, ""),
        (JUMP_ANY_BIT, NEW_NAMESPACES, "refuse"),
        "allow",
        (RETURN, ALLOW, ""),
        "refuse",
        (RETURN, REFUSE, ""),
        "unknown",
        (RETURN, UNKNOWN, ""),
    ]
    return _assemble(steps)


def _assemble(steps: Sequence[Step | str]) -> bytes:
    """Return the instructions with each label replaced by the distance to it."""
    places: dict[str, int] = {}
    instructions: list[Step] = []
    for step in steps:
        if isinstance(step, str):
            places[step] = len(instructions)
        else:
            instructions.append(step)
    return b"".join(
        struct.pack("HBBI", code, places[label] - place if label else 0, 0, operand)
        for place, (code, operand, label) in enumerate(instructions, start=1)
    )


def install_filter(kernel: Kernel, program: bytes) -> None:
    """Apply a filter to this process and its descendants; raises OSError if the kernel refuses."""
    buffer = ctypes.create_string_buffer(program, len(program))
    shape = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(shape))

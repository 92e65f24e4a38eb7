"""Confinement of the process that reads one file: limits on resources, and a list of allowed system calls.

The process has the file and a pipe open and can open nothing else: no file, no socket, no process. The
limits hold on every system, except that macOS has none on memory. The list of system calls (seccomp) is a
second layer on Linux; a process that cannot be confined this way reads nothing.
"""

import ctypes
import os
import resource
import struct
import sys
from dataclasses import dataclass

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
EACCES = 13
# BPF: load a 32-bit word of seccomp_data, compare, return.
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
AT_NUMBER, AT_ARCHITECTURE = 0, 4
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050000 | EACCES, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED_CALLS = {
    # read write close fstat poll lseek mmap mprotect munmap brk; signals of this process; readv writev
    # mremap madvise sched_yield; ids, times and sizes; futex; exit; newfstatat (fstat of glibc); getrandom
    "x86_64": (
        *(0, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 20, 24, 25, 28, 39, 60, 63, 96, 97),
        *(98, 99, 102, 131, 186, 201, 202, 204, 219, 228, 229, 230, 231, 262, 271, 273, 318, 324),
        334,
    ),
    "aarch64": (
        *(57, 62, 63, 64, 65, 66, 67, 73, 79, 80, 93, 94, 98, 99, 113, 114, 115, 123, 124, 128),
        *(132, 134, 135, 139, 160, 165, 169, 172, 174, 178, 179, 214, 215, 216, 222, 226, 233),
        *(278, 283, 293),
    ),
}
"""The numbers of the system calls that parsing bytes in memory needs. x32 numbers are not among them."""


class ConfinementError(Exception):
    """This process cannot be confined; the message says why."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on the reading of one file."""

    memory_mb: int
    """Address space of the process, including about 40 MB of programs and libraries."""
    cpu_s: int


def confine(limits: ReadLimits) -> None:
    """Confine this process permanently; raises ConfinementError if the system does not support it."""
    memory = limits.memory_mb * 1024 * 1024
    if sys.platform != "darwin":
        # the kernel of macOS refuses this limit
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for number, soft, hard in (
        # SIGXCPU at the first, which the parent can tell from the kernel's SIGKILL for lack of memory
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        # descriptors that are open remain open
        (resource.RLIMIT_NOFILE, 0, 0),
    ):
        resource.setrlimit(number, (soft, hard))
    if sys.platform == "linux":
        allow_system_calls()


def allow_system_calls() -> None:
    """Let every system call fail that is not in the list; raises ConfinementError if the kernel refuses."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise ConfinementError(f"Choir has no list of system calls for the processor {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    program = build_filter(machine)
    buffer = ctypes.create_string_buffer(program, len(program))
    shape = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    zero = ctypes.c_ulong(0)
    for option, first, second in (
        (PR_SET_NO_NEW_PRIVS, 1, zero),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(shape)),
    ):
        if libc.prctl(option, ctypes.c_ulong(first), second, zero, zero) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise ConfinementError(f"the kernel refuses seccomp filters ({reason})")


def build_filter(machine: str) -> bytes:
    """Return the seccomp program for a processor."""
    allowed = ALLOWED_CALLS[machine]
    steps = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        # another calling convention has other numbers
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
    ]
    for position, number in enumerate(allowed):
        steps.append((JUMP_EQUAL, len(allowed) - position, 0, number))
    steps += [(RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)

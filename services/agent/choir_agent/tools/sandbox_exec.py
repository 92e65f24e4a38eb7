"""Restrict this process, then exec a tool's program in it; the pid stays the same.

`ProgramRunner` runs this file as a script: `python -I -S sandbox_exec.py OPTIONS -- PROGRAM ARGS`. It imports
only the standard library, and neither `dataclasses` nor `platform`, which would triple its startup time.
Options:
    --parent PID    die with this process
    --offline       forbid sockets to this program and its descendants (seccomp)
    --read PATH     allow reading of such paths only, and no writing (Landlock)

Without a program it applies the restrictions and exits 0. If the kernel has no seccomp, `--offline`
is an error. If it has no Landlock, `--read` is ignored: it is a second line of defence in addition
to the program's own checks.
"""

import ctypes
import os
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SIGKILL = 9
SECCOMP_MODE_FILTER = 2
EACCES = 13

# BPF: load a 32-bit word of seccomp_data, compare, return.
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
AT_NUMBER, AT_ARCHITECTURE = 0, 4
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050000 | EACCES, 0x80000000
X32_NUMBERS = 0x40000000

SYS_IO_URING_SETUP, SYS_PIDFD_GETFD = 425, 438
# socket creates one; ptrace and process_vm_writev could take one from another process.
CALLS = {"x86_64": (41, 101, 311), "aarch64": (198, 117, 271)}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
FS_EXECUTE, FS_READ_FILE, FS_READ_DIR = 1, 4, 8
FS_FIRST_ABI = (1 << 13) - 1
# Needed to start a dynamically linked program.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")


class SandboxOptions:
    """The parsed command line."""

    def __init__(self, program: list[str]) -> None:
        self.parent = 0
        self.offline = False
        self.read: list[str] = []
        self.program = program


def parse_options(arguments: list[str]) -> SandboxOptions:
    """Parse the command line; raises ValueError or IndexError if it is invalid."""
    end = arguments.index("--")
    options, rest = SandboxOptions(arguments[end + 1 :]), arguments[:end]
    while rest:
        name = rest.pop(0)
        if name == "--offline":
            options.offline = True
        elif name == "--parent":
            options.parent = int(rest.pop(0))
        elif name == "--read":
            options.read.append(rest.pop(0))
        else:
            raise ValueError(name)
    return options


class Syscalls:
    """System calls that Python does not offer; each raises OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def prctl(self, option: int, first: int, second: object = 0) -> None:
        """Call prctl, which changes an attribute of this process."""
        if self._libc.prctl(option, ctypes.c_ulong(first), second, 0, 0) != 0:
            raise self._error(f"prctl({option})")

    def syscall(self, *arguments: object) -> int:
        """Make any system call."""
        result = int(self._libc.syscall(*arguments))
        if result < 0:
            raise self._error("syscall")
        return result

    def _error(self, what: str) -> OSError:
        number = ctypes.get_errno()
        return OSError(number, f"{what}: {os.strerror(number)}")


def socket_filter(machine: str) -> bytes:
    """Return the seccomp program that denies sockets; raises KeyError for an unknown processor."""
    denied = (*CALLS[machine], SYS_IO_URING_SETUP, SYS_PIDFD_GETFD)
    steps = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        # Another calling convention has other call numbers, which this filter cannot check: kill
        # the program.
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
        (JUMP_AT_LEAST, len(denied) + 1, 0, X32_NUMBERS),
    ]
    for position, number in enumerate(denied):
        steps.append((JUMP_EQUAL, len(denied) - position, 0, number))
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, DENY)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def deny_sockets(kernel: Syscalls) -> None:
    """Deny sockets to this process and its descendants."""
    program = socket_filter(os.uname().machine)
    buffer = ctypes.create_string_buffer(program, len(program))
    shape = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(shape))


def restrict_files(kernel: Syscalls, readable: list[str]) -> None:
    """Allow reading of `readable` and the system's programs only, and no writing."""
    try:
        shape = FS_FIRST_ABI.to_bytes(8, sys.byteorder)
        create = (SYS_LANDLOCK_CREATE_RULESET, shape, ctypes.c_size_t(len(shape)), 0)
        ruleset = kernel.syscall(*create)
    except OSError:
        return
    for path in (*SYSTEM, *readable):
        rights = FS_READ_FILE | FS_READ_DIR | (FS_EXECUTE if path in SYSTEM else 0)
        _allow(kernel, ruleset, path, rights)
    kernel.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(kernel: Syscalls, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib would double this script's time
        rights = rights & ~FS_READ_DIR | FS_EXECUTE
    rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
    kernel.syscall(SYS_LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
    os.close(descriptor)


def main(arguments: list[str]) -> None:
    """Apply the restrictions and exec the program."""
    options = parse_options(arguments)
    if sys.platform == "linux":
        kernel = Syscalls()
        if options.parent:
            kernel.prctl(PR_SET_PDEATHSIG, SIGKILL)
            if os.getppid() != options.parent:
                sys.exit("the agent process has ended")
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        if options.read:
            restrict_files(kernel, options.read)
        if options.offline:
            deny_sockets(kernel)
    elif options.offline:
        sys.exit("this system cannot block network access of a program")
    if options.program:
        os.execv(options.program[0], options.program)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.exit(f"cannot apply the sandbox of a tool: {error!r}")

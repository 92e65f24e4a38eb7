"""PID namespace of a confined program, and the process outside of it that others know.

That process passes signals on, and ends with the program's exit code.
"""

import os
import signal
import sys

from choir_common.confinement.kernel import (
    CLONE_NEWPID,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    Kernel,
)
from choir_common.confinement.view import MS_PRIVATE, MS_REC

SIGNAL_CODES = 128
"""Added to the number of a signal that ended the program, as shells do."""
READY = b"1"


def continue_in_pid_namespace(kernel: Kernel) -> bool:
    """Continue as the first process of a new PID namespace with its own /proc, and return True.

    The calling process stays outside, and does not return. If this host forbids it, the calling process
    continues and gets False. Needs a mount namespace.
    """
    reader, writer = os.pipe()
    try:
        child = kernel.fork(CLONE_NEWPID)
    except OSError:
        os.close(reader)
        os.close(writer)
        return False
    if child == 0:
        os.close(reader)
        _enter(kernel, writer)
        return True
    os.close(writer)
    is_ready = os.read(reader, 1) == READY
    os.close(reader)
    if not is_ready:
        os.waitpid(child, 0)
        return False
    _give_up_everything(kernel)
    sys.exit(wait_for_program(child))


def wait_for_program(program: int) -> int:
    """Wait for the end of a child, and return its exit code; pass SIGTERM and SIGINT on to it."""

    def pass_on(number: int, _: object) -> None:
        os.kill(program, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNAL_CODES - code


def _enter(kernel: Kernel, writer: int) -> None:
    """Mount /proc and say so; end this process if that fails, or if its parent has ended."""
    try:
        # The parent is outside of the namespace, where it has no number.
        kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.mount("", "/", "", MS_REC | MS_PRIVATE)
        kernel.mount_proc(0)
        os.write(writer, READY)
        os.close(writer)
    except OSError:
        os._exit(1)


def _give_up_everything(kernel: Kernel) -> None:
    """Drop what this process holds of the program's: privileges, standard input and output."""
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_capabilities()
    kernel.prctl(PR_SET_DUMPABLE, 0)
    with open(os.devnull, "rb+") as nothing:  # noqa: PTH123 - pathlib doubles the start time
        for number in range(3):
            os.dup2(nothing.fileno(), number)

"""Confined service: a PID namespace, its first process, and in it the service's program.

The process that the supervisor knows waits outside. It passes SIGTERM on, and ends with the program's exit
code. The first process of the namespace passes the signal on to the program and reaps orphans; its end is the
end of all others.
"""

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from choir_common.confinement import MISSING_VARIABLE, seccomp
from choir_common.confinement.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    Kernel,
)
from choir_common.confinement.namespaces import map_user_to_itself
from choir_common.confinement.options import ConfinementOptions
from choir_common.confinement.pid_namespace import wait_for_program
from choir_common.confinement.restriction import PRIVATE_UMASK, restrict
from choir_common.confinement.view import build_view
from choir_common.confinement.words import _

MESSAGE_BYTES = 4096
NAMESPACES = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC


def run(options: ConfinementOptions) -> NoReturn:
    """Run the service behind as many walls as the host supports, and exit with its code."""
    kernel = Kernel()
    missing: list[str] = []
    if sys.platform != "linux":
        missing.append(
            _("{platform} confines services by file permissions only").format(platform=sys.platform)
        )
        _execute(options, missing)
    for attempt in _attempts(options):
        child, obstacle = _start(kernel, attempt, missing)
        if not obstacle:
            sys.exit(wait_for_program(child))
        missing.append(obstacle)
    # Without namespaces there is no first process to wait for.
    os.umask(PRIVATE_UMASK)
    without_view = replace(options, view="", user=0)
    missing += _restrict(kernel, without_view)
    _execute(without_view, missing)


def _attempts(options: ConfinementOptions) -> Iterator[ConfinementOptions]:
    if options.user:
        yield options
    if options.view:
        yield replace(options, user=0)


def _start(kernel: Kernel, options: ConfinementOptions, missing: list[str]) -> tuple[int, str]:
    """Start the first process; return its pid, and what kept it from its view or user, if anything."""
    uid, gid = os.geteuid(), os.getegid()
    reader, writer = os.pipe()
    try:
        child = kernel.fork(NAMESPACES | (CLONE_NEWUSER if uid else 0))
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return 0, _describe(options, error)
    if child == 0:
        os.close(reader)
        try:
            # The parent is outside of the namespace, where it has no number.
            kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if uid:
                map_user_to_itself(uid, gid)
            further = _enter(kernel, options)
        except OSError as error:
            os.write(writer, _describe(options, error).encode())
            os._exit(1)
        os.close(writer)
        _run_first_process(kernel, options, [*missing, *further])
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        obstacle = stream.read(MESSAGE_BYTES).decode(errors="replace")
    if obstacle:
        os.waitpid(child, 0)
    return child, obstacle


def _describe(options: ConfinementOptions, error: OSError) -> str:
    if options.user:
        return _("a user of its own ({error}): {service} runs as root without privileges").format(
            error=str(error), service=options.service
        )
    return _("namespaces ({error}): {service} can see and signal this user's processes").format(
        error=str(error), service=options.service
    )


def _enter(kernel: Kernel, options: ConfinementOptions) -> list[str]:
    """Put this process behind all walls; return what this host does not support. Raises OSError."""
    build_view(kernel, options)
    os.umask(PRIVATE_UMASK)
    if options.user and stat.S_ISFIFO(os.fstat(0).st_mode):
        # The program opens it again by its name (/dev/stdin), which only the owner may do.
        os.fchown(0, options.user, options.user)
    missing = _restrict(kernel, options)
    if options.user:
        _try_user_namespace(kernel)
    # A change of the user clears the signal.
    kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return missing


def _restrict(kernel: Kernel, options: ConfinementOptions) -> list[str]:
    """Apply Landlock and the list of system calls, and drop privileges; return what is missing."""
    missing: list[str] = []
    if restrict(kernel, options) == 0:
        missing.append(
            _("Landlock: {service} can use every file that its user can").format(
                service=options.service
            )
        )
    if seccomp.is_supported(kernel):
        program = seccomp.build_filter(kernel.machine, offline=False, tracing=False, sandboxes=True)
        seccomp.install_filter(kernel, program)
    else:
        missing.append(
            _("seccomp: {service} can make every system call").format(service=options.service)
        )
    return missing


def _try_user_namespace(kernel: Kernel) -> None:
    """Test that the user can make a namespace, as Chromium does for its sandbox. Raises OSError."""
    child = kernel.fork(CLONE_NEWUSER)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _run_first_process(kernel: Kernel, options: ConfinementOptions, missing: list[str]) -> NoReturn:
    """Start the program, reap orphans until it has ended, and end with its code."""
    program = os.fork()
    if program == 0:
        kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _execute(options, missing)
    kernel.prctl(PR_SET_DUMPABLE, 0)
    os.close(0)
    sys.exit(wait_for_program(program))


def _execute(options: ConfinementOptions, missing: list[str]) -> NoReturn:
    os.environ[MISSING_VARIABLE] = json.dumps(missing)
    os.chdir(options.chdir)
    os.execv(options.program[0], options.program)  # noqa: S606 - no shell is meant

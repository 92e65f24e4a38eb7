"""Supervisor of one call: starts its program, waits for its end, and kills all that it started.

In a PID namespace it is the first process, so that its own end is the end of every other. Elsewhere it
adopts orphans (subreaper) and kills its descendants.
"""

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from choir_agent.call_launcher.call_cgroup import CallCgroup
from choir_agent.call_launcher.disk_usage import DiskLimits
from choir_agent.call_launcher.disk_watcher import DiskWatcher
from choir_agent.call_launcher.domain import CallDomain
from choir_agent.call_launcher.limits import CHECK_INTERVAL_S, CallLimits
from choir_agent.call_launcher.messages import STANDARD_STREAMS, CallReply, CallRequest
from choir_common.confinement.kernel import (
    MS_RDONLY,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Kernel,
)

FIRST_OTHER_FILE = STANDARD_STREAMS
NICENESS = 3
"""About half the processor time of an equal program that is not nice, like the weight of a call's cgroup."""
# Each pass finds the children of the processes that the previous pass killed.
MAX_PASSES = 200


class Supervisor:
    """Supervisor of one call, in a process of its own."""

    def __init__(
        self,
        *,
        kernel: Kernel,
        domain: CallDomain,
        limits: CallLimits,
        cgroup: CallCgroup | None,
        channel: socket.socket,
    ) -> None:
        """Set the walls of the program; without a cgroup the supervisor itself checks the limits."""
        self._kernel = kernel
        self._domain = domain
        self._limits = limits
        self._cgroup = cgroup
        self._channel = channel
        self._excess = ""

    def run(self, request: CallRequest, files: list[int]) -> CallReply:
        """Run the program to its end, or until the agent ends the stream."""
        if sys.platform == "linux":
            self._kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self._kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        if self._domain.namespaces:
            self._kernel.mount_proc(MS_RDONLY)
            self._kernel.drop_held_capabilities()
        disk = DiskWatcher(
            directories=request.directories,
            limits=DiskLimits(size=request.max_bytes, files=request.max_files),
            is_full=request.is_full,
        )
        with _child_signals() as ended_children:
            program, error_number = self._start(request, files)
            exit_code = None
            if not error_number:
                exit_code = self._wait(program, ended_children, disk)
            self._kill_call(program, exit_code)
        error = os.strerror(error_number) if error_number else ""
        if self._excess:
            exit_code = None
        return CallReply(
            exit_code=exit_code, error_number=error_number, error=error, excess=self._excess
        )

    def _kill_call(self, program: int, exit_code: int | None) -> None:
        """Kill everything that the call started, and find out whether a limit of its cgroup ended it."""
        if self._cgroup is not None:
            self._cgroup.kill()
        kill_descendants(program, in_namespace=bool(self._domain.namespaces))
        if self._cgroup is not None:
            if exit_code != 0:
                self._excess = self._excess or self._cgroup.find_excess()
            self._cgroup.remove()

    def _start(self, request: CallRequest, files: list[int]) -> tuple[int, int]:
        """Start the program; return its pid, and the number of the error that prevented it or 0."""
        failure, failure_writer = os.pipe()
        cgroup = self._cgroup
        program = self._kernel.fork_into_cgroup(cgroup.directory) if cgroup else os.fork()
        if program == 0:
            number = errno.EINVAL
            try:
                self._become(request, files, failure_writer)
            except OSError as error:
                number = error.errno or number
            except BaseException:
                number = errno.EINVAL
            os.write(FIRST_OTHER_FILE, number.to_bytes(4, "big"))
            os._exit(127)
        os.close(failure_writer)
        for file in files:
            os.close(file)
        # Ends empty when the program is executed, which closes the other end.
        number = int.from_bytes(os.read(failure, 4), "big")
        os.close(failure)
        return program, number

    def _become(self, request: CallRequest, files: list[int], failure_writer: int) -> None:
        """Become the program, behind its walls, with no open files but its standard streams."""
        os.setsid()
        if sys.platform == "linux":
            self._kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if len(files) > STANDARD_STREAMS:
            os.fchdir(files[STANDARD_STREAMS])
        else:
            os.chdir(request.cwd)
        # Above the numbers that they get, so that none of them is overwritten.
        sources = [os.dup(file) for file in (*files[:STANDARD_STREAMS], failure_writer)]
        for number, source in enumerate(sources):
            os.dup2(source, number, inheritable=number < FIRST_OTHER_FILE)
        os.closerange(FIRST_OTHER_FILE + 1, os.sysconf("SC_OPEN_MAX"))
        # Where no cgroup with a weight does the same: other programs come first on a busy host.
        os.nice(NICENESS)
        if request.is_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        self._domain.restrict(
            self._kernel,
            offline=request.offline,
            readable=tuple(request.readable),
            runnable=tuple(request.runnable),
        )
        os.execvpe(request.argv[0], request.argv, request.environment)  # noqa: S606 - no shell

    def _wait(self, program: int, ended_children: int, disk: DiskWatcher) -> int | None:
        """Return the program's exit code, or None if the agent or a limit ended the call before."""
        poll = select.poll()
        poll.register(ended_children, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        next_check = time.monotonic() + CHECK_INTERVAL_S
        while True:
            events = poll.poll(0 if disk.is_counting else CHECK_INTERVAL_S * 1000)
            # By the clock, too: a program may cause events without a pause.
            if disk.is_counting or time.monotonic() >= next_check:
                next_check = time.monotonic() + CHECK_INTERVAL_S
                self._excess = self._find_excess(disk)
                if self._excess:
                    return None
            for file, _ in events:
                if file == ended_children:
                    os.read(ended_children, 512)
                    for pid, status in _reap():
                        if pid == program:
                            return os.waitstatus_to_exitcode(status)
                elif not self._channel.recv(1):
                    return None

    def _find_excess(self, disk: DiskWatcher) -> str:
        """Return which limit the call exceeds, or an empty string."""
        if self._cgroup is not None:
            if excess := self._cgroup.find_excess():
                return excess
        # Only in a namespace of its own does /proc show the call's processes and no other.
        elif self._domain.namespaces and (excess := self._limits.find_excess()):
            return excess
        return disk.find_excess()


@contextmanager
def _child_signals() -> Iterator[int]:
    """Yield a descriptor that can be read whenever a child has ended."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, do_nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def do_nothing(*_: object) -> None:
    """Handle a signal that needs no action, but must not be ignored: programs inherit ignored signals."""


def _reap() -> Iterator[tuple[int, int]]:
    """Reap the children that have ended; yield their pids and exit statuses."""
    with contextlib.suppress(ChildProcessError):
        while (exit_status := os.waitpid(-1, os.WNOHANG))[0]:
            yield exit_status


def kill_descendants(program: int, *, in_namespace: bool) -> None:
    """Kill and reap everything that the call started."""
    if in_namespace:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        return
    # At once, so that a group that forks all the time has no chance.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    for _ in range(MAX_PASSES):
        children = list_children()
        if not children:
            break
        kill_children(children)
    for _ in _reap():
        pass


def kill_children(children: set[int]) -> None:
    """Kill and reap these children; their own children then become ours."""
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def list_children() -> set[int]:
    """Return the pids of this process's children; empty where the kernel does not list them."""
    try:
        with open("/proc/thread-self/children") as file:  # noqa: PTH123 - pathlib is slow to import
            return {int(pid) for pid in file.read().split()}
    except OSError:
        return set()

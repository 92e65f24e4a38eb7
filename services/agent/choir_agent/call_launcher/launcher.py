"""Launcher: receives calls over a socket and forks a supervisor for each.

Options, each with one value:
    --socket FD         the connection to the agent; its end is the launcher's
    --newest-abi N      use at most this version of Landlock, as on an older kernel
    --namespaces WORD   `yes`: make namespaces for each call
    --user UID          root becomes this user and group
    --memory BYTES      private memory of all processes of a call; needs namespaces
    --processes N       number of processes of a call; needs namespaces
    --cgroup FD         the open directory of the agent's cgroup, in which each call gets one of its own
    --read PATH         calls may read and execute it
    --write PATH        calls may read, write and execute it
    --list PATH         calls may list the directory, without reading files below it
    --device PATH       a device that calls may read and write
Without any path a call may use all files that its user may use. The first line on the connection is JSON: a
list of what the host does not support.
"""

import contextlib
import errno
import gc
import json
import os
import signal
import socket
import sys

from choir_agent.call_launcher.call_cgroup import create_call_cgroup
from choir_agent.call_launcher.domain import CallDomain, prepare_domain
from choir_agent.call_launcher.limits import CallLimits
from choir_agent.call_launcher.messages import CallReply, receive_request
from choir_agent.call_launcher.supervisor import (
    Supervisor,
    do_nothing,
    kill_children,
    list_children,
)
from choir_common.confinement import landlock
from choir_common.confinement.kernel import (
    CLONE_NEWNET,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Kernel,
)

RIGHTS = {
    "--read": landlock.READ,
    "--write": landlock.WRITE,
    "--list": landlock.FS_READ_DIR,
    "--device": landlock.DEVICE,
}
UNLIMITED_ABI = 1_000


class Launcher:
    """Receives calls and forks their supervisors; has one thread."""

    def __init__(
        self,
        *,
        kernel: Kernel,
        domain: CallDomain,
        limits: CallLimits,
        cgroup: int | None,
        connection: socket.socket,
    ) -> None:
        self._kernel = kernel
        self._domain = domain
        self._limits = limits
        self._cgroup = cgroup
        self._call_count = 0
        self._connection = connection
        self._supervisors: set[int] = set()

    def serve(self) -> None:
        """Serve until the agent closes the connection."""
        # Programs then start with the defaults: executing resets signals with handlers, not ignored ones.
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, do_nothing)
        signal.signal(signal.SIGCHLD, self._reap)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Collecting garbage writes to every object, and so copies the memory that children share.
        gc.disable()
        gc.freeze()
        self._connection.sendall(json.dumps(self._domain.missing).encode() + b"\n")
        while True:
            word, files, _, _ = socket.recv_fds(self._connection, 1, 1)
            if not word:
                return
            for file in files:
                self._fork_supervisor(file, offline=word == b"0")
                os.close(file)

    def _fork_supervisor(self, file: int, *, offline: bool) -> None:
        # A supervisor that is not in the set yet must not be taken for an orphan.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._call_count += 1
        namespaces = self._domain.namespaces
        if namespaces and offline:
            namespaces |= CLONE_NEWNET
        pid = self._kernel.fork(namespaces)
        if pid == 0:
            self._connection.close()
            self._supervise(socket.socket(fileno=file))
        self._supervisors.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _supervise(self, channel: socket.socket) -> None:
        """Run one call, reply, and end this process."""
        try:
            request, files = receive_request(channel)
            cgroup = None
            if self._cgroup is not None:
                cgroup = create_call_cgroup(self._cgroup, f"call-{self._call_count}", self._limits)
            reply = Supervisor(
                kernel=self._kernel,
                domain=self._domain,
                limits=self._limits,
                cgroup=cgroup,
                channel=channel,
            ).run(request, files)
        except (OSError, ValueError, TypeError) as error:
            number = error.errno if isinstance(error, OSError) else None
            reply = CallReply(error_number=number or errno.EINVAL, error=str(error))
        try:
            channel.sendall(reply.encode())
            # The agent need not wait until the memory of this process is freed.
            channel.shutdown(socket.SHUT_WR)
        finally:
            os._exit(0)

    def _reap(self, *_: object) -> None:
        """Reap supervisors, and kill orphans of a supervisor that its call has killed."""
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._supervisors.discard(pid)
        except ChildProcessError:
            return
        kill_children(list_children() - self._supervisors)


def main(arguments: list[str]) -> None:
    """Serve calls with the given options."""
    rules: list[landlock.Rule] = []
    options = {"--newest-abi": str(UNLIMITED_ABI), "--namespaces": "no"}
    options |= {"--memory": "0", "--processes": "0", "--user": "0", "--cgroup": ""}
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        if name in RIGHTS:
            rules.append((value, RIGHTS[name]))
        else:
            options[name] = value
    kernel = Kernel()
    connection = socket.socket(fileno=int(options["--socket"]))
    connection.set_inheritable(False)
    domain = prepare_domain(
        kernel,
        rules=tuple(rules),
        newest_abi=int(options["--newest-abi"]),
        want_namespaces=options["--namespaces"] == "yes",
        user=int(options["--user"]),
    )
    limits = CallLimits(memory=int(options["--memory"]), processes=int(options["--processes"]))
    cgroup = int(options["--cgroup"]) if options["--cgroup"] else None
    if sys.platform == "linux":
        kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The agent may end without having read the first line, which resets the connection.
    with contextlib.suppress(ConnectionError):
        Launcher(
            kernel=kernel, domain=domain, limits=limits, cgroup=cgroup, connection=connection
        ).serve()

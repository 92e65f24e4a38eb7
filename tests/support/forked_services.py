"""Start Choir's processes in forks of a process that has their modules, instead of importing them each time.

The imports of one stack take six seconds of processor time. `fork_services` changes how this process and its
forks start the supervisor, the fork server of services, and the browser service: `python -P -m choir_browser`
becomes a fork that runs the same module. Parent, session, user, environment variables, standard streams and
inherited descriptors are the same. Differences: /proc shows the command line and environment of the first
process, and memory pages are shared with it.

Control's fork server of agents, which has the agents' modules, is a fork, too. It is made before control has
threads, and waits until control starts it.
"""

import asyncio
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from choir_agent import fork_server
from choir_common.confinement import command_line, script_path
from choir_common.forks import client
from choir_local import child_start
from choir_local.launch import FORKED_MODULES
from choir_local.service_fork_server import load_modules

SERVER = "choir_local.service_fork_server"
SERVICES = ("choir_local", SERVER, "choir_browser", *FORKED_MODULES)
"""What starts as a fork; the last ones do so only if the fork server does not start them."""
INTERPRETER = [sys.executable, "-P", "-m"]
CONFINE = [sys.executable, "-I", "-S", script_path()]
CHILD_START = [sys.executable, "-I", "-S", child_start.__file__]
FIRST_FREE = 3
"""The lowest descriptor that is no standard stream."""
_former_streams: list[object] = []
"""Kept: an object that is freed would print what it has buffered and close a descriptor of ours."""

_execute_module = runpy.run_module
_execute = subprocess._fork_exec  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class ServiceStart:
    """A command line that starts a service, perhaps by way of `choir_local.child_start`."""

    module: str
    arguments: tuple[str, ...]
    parent: int | None = None
    death_signal: int = 0
    identity: str = ""
    confinement: tuple[str, ...] = ()
    """Options of the confinement, if the service is confined."""


def fork_services() -> None:
    """Import the services here, and start them in forks from now on."""
    load_modules()
    for module in SERVICES:
        importlib.import_module(_main_of(module))
    subprocess._fork_exec = _fork_or_execute  # type: ignore[attr-defined]


def parse_service_start(words: Sequence[str]) -> ServiceStart | None:
    """Return which service a command line starts, or None if it starts another program."""
    line = list(words)
    wrapper: list[str] = []
    if line[: len(CHILD_START)] == CHILD_START:
        line = line[len(CHILD_START) :]
        wrapper, line = line[:3], line[3:]
    confinement: list[str] = []
    if line[: len(CONFINE)] == CONFINE and "--" in line:
        end = line.index("--")
        confinement, line = line[len(CONFINE) : end], line[end + 1 :]
    module, arguments = "".join(line[3:4]), line[4:]
    if line[:3] != INTERPRETER or module not in SERVICES:
        return None
    start = ServiceStart(module, tuple(arguments), confinement=tuple(confinement))
    if not wrapper:
        return start
    parent, death_signal, identity = wrapper
    return replace(start, parent=int(parent), death_signal=int(death_signal), identity=identity)


def _fork_or_execute(
    args: Sequence[str], executables: object, close_fds: bool, kept: Sequence[int],
    cwd: str | None, env: Sequence[bytes] | None, stdin: int, _p2c: int, _c2p: int, stdout: int,
    _err: int, stderr: int, _status: int, status: int, restore_signals: bool, new_session: bool,
    *more: Any,
) -> int:  # fmt: skip
    """Do what `_posixsubprocess.fork_exec` does, with the same arguments."""
    start = parse_service_start([os.fsdecode(word) for word in args])
    if start is None:
        pid: int = _execute(
            args, executables, close_fds, kept, cwd, env, stdin, _p2c, _c2p, stdout,
            _err, stderr, _status, status, restore_signals, new_session, *more,
        )  # fmt: skip
        return pid
    pid = os.fork()
    if pid == 0:
        try:
            gc.freeze()  # for the same reason as `_former_streams`
            _take_streams((stdin, stdout, stderr), [fd for fd in kept if fd != status])
            if new_session:
                os.setsid()
            os.chdir(cwd or ".")
            _replace_environment(env)
            run_service(start)
        finally:
            os._exit(255)
    return pid


def _take_streams(streams: Sequence[int], kept: Iterable[int]) -> None:
    """Make these the standard streams, and close all descriptors but these and `kept`."""
    high = [fd if fd < 0 else fcntl.fcntl(fd, fcntl.F_DUPFD, FIRST_FREE) for fd in streams]
    for number, fd in enumerate(high):
        if fd >= 0:
            os.dup2(fd, number)
    begin = FIRST_FREE
    for fd in sorted(kept):
        os.closerange(begin, fd)
        begin = fd + 1
    os.closerange(begin, os.sysconf("SC_OPEN_MAX"))
    _former_streams.append((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115


def _replace_environment(env: Sequence[bytes] | None) -> None:
    if env is not None:
        os.environb.clear()
        os.environb.update(entry.split(b"=", 1) for entry in env)  # type: ignore[arg-type,misc]
        time.tzset()


def _fork_waiting_process() -> None:
    """Fork the process that becomes the fork server of this one; it ends with this one, if it is not used."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _wait_for_use(theirs)
    theirs.close()
    execute = client.start_server

    async def use_or_execute(
        command: Sequence[str], descriptor: int, environment: Mapping[str, str]
    ) -> client.ChildProcess:
        if ours.fileno() == -1:
            return await execute(command, descriptor, environment)
        with ours:
            request = json.dumps([str(os.getpid()), dict(environment)]).encode()
            socket.send_fds(ours, [request], [descriptor])
            return client.ForkedProcess(int(ours.recv(32)))

    client.start_server = use_or_execute


def _wait_for_use(control: socket.socket) -> NoReturn:
    packet, descriptors, _, _ = socket.recv_fds(control, 65_536, 1)
    if not packet:
        os._exit(0)
    parent, environment = json.loads(packet)
    control.sendall(str(os.getpid()).encode())
    control.detach()
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    _take_streams((nothing, nothing, 2), descriptors)
    os.chdir("/")
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    _exit_with(lambda: fork_server.main([str(descriptors[0]), parent]))


def run_service(start: ServiceStart) -> NoReturn:
    """Run a service as a new interpreter would; exit with its code."""
    asyncio.set_event_loop(None)
    asyncio._set_running_loop(None)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [start.module, *start.arguments]
    del sys.modules[_main_of(start.module)]
    if start.module == SERVER:
        runpy.run_module = _run_module_of_service
    elif start.module == "choir_control":
        _fork_waiting_process()
    _exit_with(lambda: _run_module(start))


def _main_of(module: str) -> str:
    return SERVER if module == SERVER else f"{module}.__main__"


def _run_module_of_service(module: str, **options: Any) -> dict[str, Any]:
    """Run a module for the fork server of services."""
    if module == "choir_control":
        _fork_waiting_process()
    return _execute_module(module, **options)


def _run_module(start: ServiceStart) -> None:
    if start.parent is not None:
        child_start.start(start.parent, start.death_signal, start.identity, [])
    if start.confinement:
        # What would execute a new interpreter runs the module here instead.
        unconfined = replace(start, parent=None, confinement=())
        os.execv = lambda *_: run_service(unconfined)  # type: ignore[assignment,return-value]
        sys.modules[_main_of(start.module)] = sys.modules["__main__"]
        command_line.main([*start.confinement, "--", sys.executable])
    _execute_module(start.module, run_name="__main__", alter_sys=True)


def _exit_with(program: Callable[[], object]) -> NoReturn:
    """Run a program as an interpreter does, and exit with its code."""
    try:
        code = program()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)

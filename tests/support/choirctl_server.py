"""Server that loads choirctl once and runs each command in a fork; started by `preloaded_choirctl`.

With `--services` it has the services' modules, too, and runs `-m MODULE` as a service.

Each request is one byte on the control socket with four file descriptors: a connection, and the command's
standard input, output and error. The fork reads what to run from the connection. The server answers there
with the fork's process id at once, and with its exit code in the end. It ends with the control socket.
"""

import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Sequence
from typing import NoReturn

import choirctl.chat.terminal_chat  # loaded by `chat` only on a terminal
import choirctl.output.failures  # noqa: F401 - loaded by `main` only when a command fails
from choirctl.__main__ import main
from choirctl.app import COMMANDS, build_app
from tests.support.forked_services import ServiceStart, fork_services, run_service
from tests.support.preloaded_choirctl import SERVICES_TOO
from tests.support.wire_models import build_wire_models

DESCRIPTORS = 4


def serve(control: socket.socket) -> None:
    """Run commands until the control socket is closed.

    No thread is started here: it would not survive a fork.
    """
    build_app({entry.name for entry in COMMANDS})
    build_wire_models()
    gc.collect()
    gc.freeze()
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    running: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([control, wake], [], [])
        if wake in readable:
            wake.recv(1024)
            _report_ended(running)
        if control in readable:
            _, received, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
            if not received:
                break
            connection, streams = socket.socket(fileno=received[0]), received[1:]
            child = os.fork()
            if child == 0:
                for open_socket in (control, wake, waker, *running.values()):
                    open_socket.detach()
                _run_command(connection, streams)
            for stream in streams:
                os.close(stream)
            running[child] = connection
            _answer(connection, child)
    for child in running:
        os.kill(child, signal.SIGKILL)


def _report_ended(running: dict[int, socket.socket]) -> None:
    for child in list(running):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with running.pop(child) as connection:
                _answer(connection, os.waitstatus_to_exitcode(status))


def _answer(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(f"{number}\n".encode())
    except OSError:
        return  # the client has disconnected


def _run_command(connection: socket.socket, streams: Sequence[int]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    with connection, connection.makefile("rb") as request:
        words, env, folder = json.loads(request.readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    terminals = [number for number in range(3) if os.isatty(number)]
    if terminals:
        fcntl.ioctl(terminals[0], termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    if words[:1] == ["-m"]:
        run_service(ServiceStart(words[1], tuple(words[2:])))
    sys.argv = ["choirctl", *words]
    sys.modules["__main__"].__package__ = None  # else click calls the program `python -m tests...`
    try:
        main()
        code: object = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 120  # as the interpreter does
    os._exit(code or 0)


if __name__ == "__main__":
    # Detached, as no child of the test process: an agent that runs inside a test kills unknown children.
    if os.fork():
        os._exit(0)
    os.setsid()
    if sys.argv[2:] == [SERVICES_TOO]:
        fork_services()
    with socket.socket(fileno=int(sys.argv[1])) as control_socket:
        control_socket.set_inheritable(False)
        serve(control_socket)

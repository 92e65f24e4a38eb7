"""Run commands of choirctl without loading its modules each time: in forks of a process that has them.

A start of choirctl takes 0.4 s of processor time before it does anything. Each test process has a server of
its own (`choirctl_server`), which ends with it, and another one for `up`, which also has the services'
modules (`forked_services`). `--show-completion` runs the real program: it looks for the shell among its
ancestors. Tests about the program itself (its start, signals, Ctrl-C) use `CHOIRCTL`.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO

from tests.support.detached_server import no_subreaper

CHOIRCTL = Path(sys.executable).parent / "choirctl"
ROOT = Path(__file__).parents[2]
SERVER, SERVICES_TOO = "tests.support.choirctl_server", "--services"
WITHIN_S = 300.0
COLUMNS, ROWS = 120, 50


def run_choirctl(
    *words: str,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: str = "",
    timeout_s: float = WITHIN_S,
    real_program: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command with `given` on standard input; `env` is added to this process's environment.

    `real_program` starts the program as a shell does. Raises subprocess.TimeoutExpired; the command has been
    killed then.
    """
    full_env = {**os.environ, **(env or {}), **({"CHOIR_HOME": str(home)} if home else {})}
    if real_program or not _can_fork(words):
        return subprocess.run(
            [CHOIRCTL, *words],
            env=full_env,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given.encode())
        stdin.seek(0)
        command = _start(words, full_env, stdin.fileno(), stdout.fileno(), stderr.fileno())
        code = command.wait(timeout_s)
        return subprocess.CompletedProcess(words, code, _content(stdout), _content(stderr))


def _can_fork(words: Collection[str]) -> bool:
    return "--show-completion" not in words


def run_on_terminal(
    *words: str, home: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command that prints on a terminal, and has nothing on standard input."""
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
    full_env = {**plain, "TERM": "xterm-256color", **env, "CHOIR_HOME": str(home)}
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    # do not turn line ends into carriage return and line feed
    mode = termios.tcgetattr(inside)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(inside, termios.TCSANOW, mode)
    try:
        with Path(os.devnull).open("rb") as nothing:
            command = _start(words, full_env, nothing.fileno(), inside, inside)
        shown = b""
        deadline = time.monotonic() + WITHIN_S
        while command.poll() is None:
            assert time.monotonic() < deadline, (words, shown)
            shown += _read(screen, 0.05)
        code = command.wait(WITHIN_S)
        while block := _read(screen, 0.05):
            shown += block
        # strictly: a byte that is no UTF-8 could be a control of one byte
        return subprocess.CompletedProcess(words, code, shown.decode("utf-8"), "")
    finally:
        os.close(inside)
        os.close(screen)


class ForkedCommand:
    """A command that runs in a fork of the server; has the methods of a Popen that tests need."""

    def __init__(self, connection: socket.socket, words: tuple[str, ...]) -> None:
        self._connection = connection
        self._answers = connection.makefile("r")
        self._words = words
        self._code: int | None = None
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """Return its exit code, or None if it still runs."""
        if self._code is None and select.select([self._connection], [], [], 0)[0]:
            self._code = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self._code

    def wait(self, timeout_s: float = WITHIN_S) -> int:
        """Return its exit code. Raises subprocess.TimeoutExpired when it had to be killed."""
        if self._code is None and not select.select([self._connection], [], [], timeout_s)[0]:
            self.kill()
            select.select([self._connection], [], [])
            self.poll()
            raise subprocess.TimeoutExpired(self._words, timeout_s)
        code = self.poll()
        assert code is not None
        return code

    def kill(self) -> None:
        """Kill it and its children, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended
                os.killpg(self.pid, signal.SIGKILL)


class _Server:
    """A server of this process, started with `options` when it is first needed."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def hand_over(self, *descriptors: int) -> None:
        """Send the descriptors of one request."""
        with self._lock:
            if self._control is None:
                self._control = self._started()
            socket.send_fds(self._control, [b"."], descriptors)

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, no_subreaper():
            # returns once the server has detached itself
            subprocess.run(
                [sys.executable, "-m", SERVER, str(theirs.fileno()), *self._options],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                check=True,
            )
        return ours

    def stop(self) -> None:
        """End the server, if it was started."""
        with self._lock:
            if self._control is not None:
                self._control.shutdown(socket.SHUT_WR)
                self._control.settimeout(WITHIN_S)
                self._control.recv(1)  # returns when the server has ended
                self._control.close()
                self._control = None


_server = _Server()
_server_with_services = _Server(SERVICES_TOO)


def stop_servers() -> None:
    """End the servers of this process that were started."""
    _server.stop()
    _server_with_services.stop()


def _start(words: tuple[str, ...], env: Mapping[str, str], *streams: int) -> ForkedCommand:
    ours, theirs = socket.socketpair()
    server = _server_with_services if {"up", "-m"} & set(words) else _server
    with theirs:
        server.hand_over(theirs.fileno(), *streams)
    ours.sendall(json.dumps([words, dict(env), str(Path.cwd())]).encode() + b"\n")
    return ForkedCommand(ours, words)


def start_on_terminal(words: tuple[str, ...], env: Mapping[str, str], inside: int) -> ForkedCommand:
    """Start a command whose standard streams are the terminal `inside`; `env` is its whole environment."""
    return _start(words, env, inside, inside, inside)


def start_service(module: str, env: Mapping[str, str], log: int) -> ForkedCommand:
    """Start a service that writes to the descriptor `log`; `env` is its whole environment."""
    with Path(os.devnull).open("rb") as nothing:
        return _start(("-m", module), env, nothing.fileno(), log, log)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    # strictly: a byte that is no UTF-8 could be a control of one byte
    return file.read().decode("utf-8")


def _read(screen: int, within_s: float) -> bytes:
    if not select.select([screen], [], [], within_s)[0]:
        return b""
    return os.read(screen, 65_536)

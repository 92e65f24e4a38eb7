"""Fast runs of many choirctl commands: one process loads the modules, and each command runs in a fork of it.

Loading choirctl takes 0.4 s of CPU time. `loaded_choirctl` starts this module as a separate process without
threads, so that forking is safe. Used by tests/security/whole.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from choirctl.__main__ import main
from choirctl.app import COMMANDS, build_app

WITHIN_S = 120.0
COLUMNS, ROWS = 120, 50


@dataclass(frozen=True, slots=True)
class Done:
    """Output and exit code of a command."""

    exit_code: int
    out: str
    """On a terminal, standard output and standard error together."""
    err: str = ""


class Commands:
    """Client of a process with choirctl loaded, for one environment."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def in_pipe(self, *words: str) -> Done:
        """Run a command with its output redirected to files."""
        out, err = self._folder / "out", self._folder / "err"
        code = self._run(words, "/dev/null", str(out), str(err))
        return Done(code, _text(out.read_bytes()), _text(err.read_bytes()))

    def on_terminal(self, *words: str) -> Done:
        """Run a command that prints on a terminal; its standard input is empty."""
        screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        # no output processing: a line feed must not become CR LF
        mode = termios.tcgetattr(inside)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(inside, termios.TCSANOW, mode)
        try:
            name = os.ttyname(inside)
            self._ask(words, "/dev/null", name, name)
            shown = b""
            deadline = time.monotonic() + WITHIN_S
            while not select.select([self._answers], [], [], 0)[0]:
                assert time.monotonic() < deadline, (words, shown)
                shown += _read(screen, 0.05)
            code = int(self._answers.readline())
            while block := _read(screen, 0.05):
                shown += block
            return Done(code, _text(shown))
        finally:
            os.close(inside)
            os.close(screen)

    @property
    def _answers(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _run(self, words: tuple[str, ...], *streams: str) -> int:
        self._ask(words, *streams)
        assert select.select([self._answers], [], [], WITHIN_S)[0], words
        return int(self._answers.readline())

    def _ask(self, words: tuple[str, ...], *streams: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([words, streams]) + "\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def loaded_choirctl(env: dict[str, str]) -> Iterator[Commands]:
    """Load choirctl in a process with this environment, and kill the process after the block."""
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
    with (
        tempfile.TemporaryDirectory(prefix="ch-") as folder,
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**plain, "TERM": "xterm-256color", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            yield Commands(process, Path(folder))
        finally:
            process.kill()


def _text(printed: bytes) -> str:
    # strict: an invalid byte could be an 8-bit control character
    return printed.decode("utf-8")


def _read(screen: int, within_s: float) -> bytes:
    if not select.select([screen], [], [], within_s)[0]:
        return b""
    return os.read(screen, 65_536)


def _serve() -> None:
    """Run each requested command in a fork, and print its exit code."""
    build_app({entry.name for entry in COMMANDS})
    for line in sys.stdin:
        words, streams = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_choirctl(words, streams)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _become_choirctl(words: list[str], streams: list[str]) -> None:
    os.setsid()
    for number, (name, mode) in enumerate(zip(streams, ("r", "w", "w"), strict=True)):
        flags = os.O_RDWR if name.startswith("/dev/pts") else os.O_RDONLY
        if mode == "w" and not name.startswith("/dev/pts"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv = ["choirctl", *words]
    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    _serve()

"""Type commands of choirctl on a terminal: a real one, of any width, with a person who answers.

Used by tests/service/choirctl; for what scripts do there is `shell`.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.shell import Shell
from tests.support.stack import CHOIRCTL

ROWS = 50
PATIENCE_S = 120.0
BLOCK = 65_536


@dataclass
class Typed:
    """A command that runs on a terminal of its own."""

    process: subprocess.Popen[bytes]
    screen: int
    shown: str = ""

    def until(self, text: str) -> None:
        """Wait until the screen has shown `text`."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), f"it ended without saying {text!r}: {self.shown}"

    def answer(self, text: str) -> None:
        """Type a line."""
        os.write(self.screen, f"{text}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, self.shown
        return self.process.wait(PATIENCE_S)

    def _read(self) -> bool:
        """Take what the screen shows within a moment; False once nobody can write to it."""
        if not select.select([self.screen], [], [], 0.5)[0]:
            return True
        try:
            block = os.read(self.screen, BLOCK)
        except OSError:  # the last writer has gone
            return False
        self.shown += block.decode(errors="replace")
        return bool(block)


@contextlib.contextmanager
def typing(shell: Shell, *words: str, columns: int = 100, **env: str) -> Iterator[Typed]:
    """Run a command on a terminal so wide; it does not outlive the block."""
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    without = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    plain = {name: value for name, value in os.environ.items() if name not in without}
    try:
        process = subprocess.Popen(
            [CHOIRCTL, *words],
            env={
                **plain,
                **shell.env,
                "CHOIR_HOME": str(shell.home),
                "TERM": "xterm-256color",
                **env,
            },
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
    finally:
        os.close(inside)
    try:
        yield Typed(process, screen)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(screen)

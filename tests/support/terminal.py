"""Runs choirctl commands on a pseudo-terminal of any width, and types answers to their questions.

Used by tests/service/choirctl; `shell` runs commands without a terminal.
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

from tests.support.preloaded_choirctl import CHOIRCTL, ForkedCommand, start_on_terminal
from tests.support.shell import ChoirctlRunner

ROWS = 50
PATIENCE_S = 300.0
BLOCK = 65_536


@dataclass
class TerminalCommand:
    """A command that runs on its own pseudo-terminal."""

    process: subprocess.Popen[bytes] | ForkedCommand
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
        """Send SIGINT, as Ctrl-C does."""
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Wait until the command ends; return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, self.shown
        return self.process.wait(PATIENCE_S)

    def _read(self) -> bool:
        """Read output for up to half a second; return False once the terminal is closed."""
        if not select.select([self.screen], [], [], 0.5)[0]:
            return True
        try:
            block = os.read(self.screen, BLOCK)
        except OSError:  # the last writer has closed the terminal
            return False
        self.shown += block.decode(errors="replace")
        return bool(block)


@contextlib.contextmanager
def run_on_terminal(
    shell: ChoirctlRunner,
    *words: str,
    columns: int = 100,
    real_program: bool = False,
    **env: str,
) -> Iterator[TerminalCommand]:
    """Run a command on a terminal with `columns` columns; kill it after the block.

    `real_program` starts the program as a shell does; otherwise the command runs in a fork of a process with
    choirctl loaded.
    """
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    without = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    plain = {name: value for name, value in os.environ.items() if name not in without}
    full_env = {
        **plain,
        **shell.env,
        "CHOIR_HOME": str(shell.home),
        "TERM": "xterm-256color",
        **env,
    }
    process: subprocess.Popen[bytes] | ForkedCommand
    try:
        if real_program:
            process = subprocess.Popen(
                [CHOIRCTL, *words],
                env=full_env,
                stdin=inside,
                stdout=inside,
                stderr=inside,
                start_new_session=True,
            )
        else:
            process = start_on_terminal(words, full_env, inside)
    finally:
        os.close(inside)
    try:
        yield TerminalCommand(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)

"""Start of one child process in its own session, with a clean environment, tied to the parent's life.

Called by `EmbeddedServer` and `Supervisor`. The child runs `child_start` first, which then executes the
program. Every caller must `wait()` for its children.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from choir_local import child_start
from choir_local.child_log import ChildLog
from choir_local.process_user import SAME_USER, ProcessUser

PIPE_ROOM = 60_000  # bytes; a Linux pipe takes 64 KiB before a writer blocks
INHERITED = (
    *("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PLAYWRIGHT_BROWSERS_PATH"),
)


def clean_environment(**more: str) -> dict[str, str]:
    """Return the few variables every program needs, plus `more`; keys and tokens are not inherited."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"HOME": os.environ.get("HOME", "/"), **kept, **more}


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start: `stdin` is written and closed, `fds` stay open in the child."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=clean_environment)
    stdin: bytes = b""
    fds: tuple[int, ...] = ()
    identity: ProcessUser = SAME_USER
    death_signal: signal.Signals = signal.SIGTERM
    """Sent by the kernel to the child when this process dies, however it dies."""


def open_log(path: Path) -> int:
    """Open `path` for appending with mode 0600, for the supervisor's own output."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def launch(command: Command, log: ChildLog) -> Process:
    """Start `command` with its output read into `log`; the caller must wait for the process.

    Raises OSError if it cannot be forked.
    """
    output = await log.open_pipe()
    try:
        return await _spawn(command, output)
    finally:
        os.close(output)


async def run_to_end(command: Command, within: timedelta) -> tuple[int, str]:
    """Run `command` and return its exit code and output; kill it after `within`.

    Raises TimeoutError when `within` has passed.
    """
    process = await _spawn(command, PIPE)
    try:
        async with asyncio.timeout(within.total_seconds()):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")


async def _spawn(command: Command, output: int) -> Process:
    if len(command.stdin) > PIPE_ROOM:
        raise ValueError(f"standard input of {command.argv[0]} exceeds {PIPE_ROOM} bytes")
    # A real pipe, not asyncio's PIPE: that is a socket pair, which /dev/stdin cannot open.
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, command.stdin)
    finally:
        os.close(write_end)
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            child_start.__file__,
            str(os.getpid()),
            str(int(command.death_signal)),
            command.identity.text,
            *command.argv,
            env=dict(command.env),
            stdin=read_end,
            stdout=output,
            stderr=STDOUT,
            pass_fds=command.fds,
            start_new_session=True,
        )
    finally:
        os.close(read_end)

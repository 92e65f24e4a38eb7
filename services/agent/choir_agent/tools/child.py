"""Run a program that cannot outlive its call: own process group, clean environment, capped output.

Called by `choir.exec`. The child dies with us (parent-death signal). Whatever it started is killed when the
call ends, times out or is cancelled: its process group first, then, by `strays`, what left that group.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from choir_agent.tools.strays import end_strays, kill_group

KEEP_EACH_END = 15_000
# how long to read on when the program has ended but something still holds its output open
DRAIN_S = 0.2

# Without setpriv a small interpreter asks for the parent-death signal; preexec_fn may deadlock in a
# process that has threads.
_LAUNCHER = (
    "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9,0,0,0);"
    "os.getppid()==int(sys.argv[1]) or sys.exit(1);os.execvp(sys.argv[2],sys.argv[2:])"
)


class Capture(asyncio.Protocol):
    """A stream's beginning and end; the middle of a long one is counted and dropped."""

    def __init__(self) -> None:
        self.start = bytearray()
        self.end = bytearray()
        self.size = 0
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Take in what arrived."""
        self.size += len(data)
        room = KEEP_EACH_END - len(self.start)
        self.start += data[:room]
        self.end += data[room:]
        del self.end[:-KEEP_EACH_END]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nobody writes any more."""
        self.ended.set()

    def text(self) -> str:
        """Return what was kept, with a note where something is missing."""
        missing = self.size - len(self.start) - len(self.end)
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self.start, self.end))
        return f"{head}\n… {missing} bytes left out …\n{tail}" if missing else head + tail


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended; `exit_code` is negative for a signal, None when it was killed by us."""

    exit_code: int | None
    stdout: Capture
    stderr: Capture


def _wrapped(argv: Sequence[str]) -> list[str]:
    if sys.platform != "linux":
        return list(argv)
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv:
        return [setpriv, "--pdeathsig", "KILL", "--", *argv]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *argv]


@asynccontextmanager
async def _pipe_into(capture: Capture) -> AsyncIterator[int]:
    """Yield the writing end of a pipe that `capture` reads.

    Pipes of our own, because asyncio's process waits for the ends of its pipes, and something that the
    command left in the background may hold them open.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(write_end, True)
    with os.fdopen(read_end, "rb", buffering=0) as reader, os.fdopen(write_end, "wb") as writer:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: capture, reader)
        try:
            yield writer.fileno()
            writer.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await capture.ended.wait()
        finally:
            transport.close()


class Children:
    """Runs programs for tools, and knows which of our processes are theirs."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._starting = 0

    async def run(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> Finished:
        """Run `argv` to its end, or kill it after `timeout_s`; a cancellation kills it too.

        Raises OSError when it cannot be started.
        """
        stdout, stderr = Capture(), Capture()
        exit_code: int | None = None
        async with _pipe_into(stdout) as out, _pipe_into(stderr) as err:
            process = await self._start(argv, cwd, environment, out, err)
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        exit_code = await process.wait()
            finally:
                kill_group(process.pid)
                await process.wait()
                self._running.discard(process.pid)
                if not self._starting:
                    end_strays(self._running)
        return Finished(exit_code, stdout, stderr)

    async def _start(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], out: int, err: int
    ) -> asyncio.subprocess.Process:
        # a child between fork and our knowing of it must not be taken for a stray
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(
                *_wrapped(argv),
                cwd=cwd,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self._running.add(process.pid)
            return process
        finally:
            self._starting -= 1

"""Run a program that cannot outlive its call: own process group, clean environment, capped output.

Called by the tools that are programs. The child dies with us (parent-death signal). Whatever it started is
killed when the call ends, times out or is cancelled: its process group first, then, by `strays`, what left
that group.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from choir_agent.credentials.own_children import OwnChildren
from choir_agent.tools import seal
from choir_agent.tools.strays import CALL_ID, end_strays, kill_group, reap_ended
from choir_agent.tools.streams import Sink, feeding, pipe_into

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REAP_EVERY_S = 1.0
# the parent-death signal is asked for after the fork, when we may be gone already
_STILL_OURS = '[ "$PPID" = "$0" ] && exec "$@"'


@dataclass(frozen=True, slots=True)
class Program:
    """What to run for a call; `timeout_s` counts from its start."""

    call_id: str
    argv: Sequence[str]
    timeout_s: float
    cwd: str = ""
    """The workspace unless given."""
    stdin: bytes | int | None = field(default=None, repr=False)
    """What it can read: bytes, an open descriptor, or nothing."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside the clean one."""
    with_git: bool = False
    """Whether it may use the agent's git identity."""
    offline: bool = False
    """Whether the kernel keeps it from making any socket."""
    readable: tuple[str, ...] = ()
    """All it may read, unless empty; relative paths count from `cwd`."""


class Children:
    """Runs programs for tools, and knows which of our processes are theirs."""

    def __init__(
        self,
        workspace: Path,
        tmp_dir: str,
        own: OwnChildren | None = None,
        git_environment: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Describe where programs run; `own` are the agent's own, which no command left behind."""
        self._workspace = workspace
        self._tmp_dir = tmp_dir
        self._own = own or OwnChildren()
        self._git_environment = git_environment
        self._running: dict[int, str] = {}
        self._starting = 0
        self._setpriv = shutil.which("setpriv", path="/usr/bin:/bin")

    async def run(self, program: Program, stdout: Sink, stderr: Sink) -> int | None:
        """Run a program to its end, and return its exit code: negative for a signal.

        None when it was killed by us: after its timeout, or because a sink had enough. A cancellation
        kills it, too. Raises OSError when it cannot be started.
        """
        exit_code: int | None = None
        async with (
            pipe_into(stdout) as out,
            pipe_into(stderr) as err,
            feeding(program.stdin) as stdin,
        ):
            process = await self._start(program, stdin, out, err)
            try:
                async with self._reaping():
                    exit_code = await _end_of(process, (stdout, stderr), program.timeout_s)
            finally:
                kill_group(process.pid)
                await process.wait()
                self._running.pop(process.pid, None)
                if not self._is_starting():
                    end_strays(self._ours(), self._running.values())
        return exit_code

    def _is_starting(self) -> bool:
        # a child between fork and our knowing of it must not be taken for a stray
        return self._starting > 0 or self._own.starting

    def _ours(self) -> set[int]:
        return {*self._running, *self._own.pids}

    def _environment(self, program: Program) -> dict[str, str]:
        """Return a clean environment: no token, no secret, nothing of ours."""
        return {
            "PATH": PATH,
            "HOME": str(self._workspace),
            "PWD": str(self._workspace),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": self._tmp_dir,
            CALL_ID: program.call_id,
            **(self._git_environment() if program.with_git else {}),
            **program.environment,
        }

    async def _start(
        self, program: Program, stdin: int, out: int, err: int
    ) -> asyncio.subprocess.Process:
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(
                *self._wrapped(program),
                cwd=program.cwd or self._workspace,
                env=self._environment(program),
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self._running[process.pid] = program.call_id
            return process
        finally:
            self._starting -= 1

    def _wrapped(self, program: Program) -> list[str]:
        """Return the command line, behind what puts up its walls.

        Not preexec_fn, which may deadlock in a process that has threads.
        """
        ours = str(os.getpid())
        walled = program.offline or program.readable
        if sys.platform != "linux" and not walled:
            return list(program.argv)
        if self._setpriv and not walled:
            still_ours = ["/bin/sh", "-c", _STILL_OURS, ours]
            return [self._setpriv, "--pdeathsig", "KILL", "--", *still_ours, *program.argv]
        options = ["--parent", ours, *(["--offline"] if program.offline else [])]
        for path in program.readable:
            options += ["--read", path]
        return [sys.executable, "-I", "-S", seal.__file__, *options, "--", *program.argv]

    @asynccontextmanager
    async def _reaping(self) -> AsyncIterator[None]:
        """End and reap, while a program still runs, what ended calls left behind."""
        reaper = asyncio.create_task(self._reap())
        try:
            yield
        finally:
            reaper.cancel()

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            if not self._is_starting():
                # a stray that was between two programs when its call ended can be told by now
                end_strays(self._ours(), self._running.values())
                reap_ended(self._ours())


async def _end_of(
    process: asyncio.subprocess.Process, sinks: tuple[Sink, ...], timeout_s: float
) -> int | None:
    """Wait for a program's end, for a sink that has enough, or for the timeout."""
    exited = asyncio.create_task(process.wait())
    waits = [exited, *(asyncio.create_task(sink.enough.wait()) for sink in sinks)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return exited.result() if exited.done() else None
    finally:
        for wait in waits:
            wait.cancel()

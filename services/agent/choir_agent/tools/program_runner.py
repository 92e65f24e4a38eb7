"""Run a program that cannot outlive its call: own process group, clean environment, capped output.

The child dies with the agent (parent-death signal). Processes that it started are killed when the call ends,
times out or is cancelled: first its process group, then, by `orphans`, processes that left the group.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from choir_agent.credentials.child_processes import OwnChildProcesses
from choir_agent.tools import sandbox_exec
from choir_agent.tools.orphans import CALL_ID, kill_orphans, kill_process_group, reap_zombies
from choir_agent.tools.streams import StreamSink, input_pipe, output_pipe

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REAP_INTERVAL_S = 1.0
# The parent-death signal is set after the fork, when the agent may be dead already.
_STILL_OURS = '[ "$PPID" = "$0" ] && exec "$@"'


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run for one call; `timeout_s` counts from its start."""

    call_id: str
    argv: Sequence[str]
    timeout_s: float
    cwd: str = ""
    """Working directory; the workspace if empty."""
    stdin: bytes | int | None = field(default=None, repr=False)
    """Standard input: bytes, an open descriptor, or nothing."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the clean environment."""
    with_git: bool = False
    """Whether it may use the agent's git identity."""
    offline: bool = False
    """Whether the kernel prevents it from creating any socket."""
    readable: tuple[str, ...] = ()
    """The only paths it may read, unless empty; relative ones are relative to `cwd`."""


class GitEnvironment(Protocol):
    """Access to the agent's git identity."""

    def environment(self) -> Mapping[str, str]: ...


class ProgramRunner:
    """Runs programs for tools and tracks their process ids."""

    def __init__(
        self,
        workspace: Path,
        tmp_dir: str,
        *,
        own: OwnChildProcesses | None = None,
        git: GitEnvironment | None = None,
    ) -> None:
        """Set where programs run.

        `own` are the agent's own child processes, which are never orphans. `git` is for programs that may use
        the agent's git identity.
        """
        self._workspace = workspace
        self._tmp_dir = tmp_dir
        self._own = own or OwnChildProcesses()
        self._git = git
        self._running: dict[int, str] = {}
        self._starting = 0
        self._setpriv = shutil.which("setpriv", path="/usr/bin:/bin")

    async def run(self, program: Program, stdout: StreamSink, stderr: StreamSink) -> int | None:
        """Run a program to its end and return its exit code, negative for a signal.

        Returns None if the agent killed it: after its timeout, or because a sink had enough. A
        cancellation kills it, too. Raises OSError if it cannot be started.
        """
        exit_code: int | None = None
        async with (
            output_pipe(stdout) as out,
            output_pipe(stderr) as err,
            input_pipe(program.stdin) as stdin,
        ):
            process = await self._start(program, stdin, out, err)
            try:
                async with self._reaping():
                    exit_code = await _end_of(process, (stdout, stderr), program.timeout_s)
            finally:
                # First the whole group at once, then processes that left it.
                kill_process_group(process.pid)
                await process.wait()
                self._running.pop(process.pid, None)
                if not self._is_starting():
                    kill_orphans(self._ours(), self._running.values())
        return exit_code

    def _is_starting(self) -> bool:
        # A child that was forked but is not registered yet must not be taken for an orphan.
        return self._starting > 0 or self._own.starting

    def _ours(self) -> set[int]:
        return {*self._running, *self._own.pids}

    def _environment(self, program: Program) -> dict[str, str]:
        """Return a clean environment: no token, no secret, nothing from the agent's own."""
        return {
            "PATH": PATH,
            "HOME": str(self._workspace),
            "PWD": str(self._workspace),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": self._tmp_dir,
            CALL_ID: program.call_id,
            **(self._git.environment() if self._git and program.with_git else {}),
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
                # A new session makes the child the leader of a process group that can be killed as
                # a whole.
                start_new_session=True,
            )
            self._running[process.pid] = program.call_id
            return process
        finally:
            self._starting -= 1

    def _wrapped(self, program: Program) -> list[str]:
        """Return the command line, prefixed by the wrapper that applies the restrictions.

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
        return [sys.executable, "-I", "-S", sandbox_exec.__file__, *options, "--", *program.argv]

    @asynccontextmanager
    async def _reaping(self) -> AsyncIterator[None]:
        """Kill and reap leftovers of ended calls while a program is still running."""
        reaper = asyncio.create_task(self._reap())
        try:
            yield
        finally:
            reaper.cancel()

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_INTERVAL_S)
            if not self._is_starting():
                # An orphan that was in the middle of an exec when its call ended can be identified
                # now.
                kill_orphans(self._ours(), self._running.values())
                reap_zombies(self._ours())


async def _end_of(
    process: asyncio.subprocess.Process, sinks: tuple[StreamSink, ...], timeout_s: float
) -> int | None:
    """Wait until a program ends, a sink has enough, or the timeout expires."""
    exited = asyncio.create_task(process.wait())
    waits = [exited, *(asyncio.create_task(sink.enough.wait()) for sink in sinks)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return exited.result() if exited.done() else None
    finally:
        for wait in waits:
            wait.cancel()

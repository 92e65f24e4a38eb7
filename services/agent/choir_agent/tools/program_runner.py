"""Run a program that cannot outlive its call: in a domain of its own, clean environment, capped output.

Whatever the program started is killed when the call ends, times out or is cancelled, and when the agent ends.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from choir_agent.call_launcher.messages import CallRequest
from choir_agent.tools.call_launcher_client import CallLauncherClient, StartedCall
from choir_agent.tools.streams import StreamSink, input_pipe, output_pipe
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace_quota import WorkspaceQuota

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run for one call; `timeout_s` counts from its start."""

    call_id: str
    argv: Sequence[str]
    timeout_s: float
    directory: int | None = None
    """Working directory, as an open descriptor; the workspace if None."""
    stdin: bytes | int | None = field(default=None, repr=False)
    """Standard input: bytes, an open descriptor, or nothing."""
    with_git: bool = False
    """Whether it may use the agent's git identity."""
    offline: bool = False
    """Whether the kernel prevents it from creating any socket."""
    tool: str = ""
    """Name of the tool, which the egress proxy checks; without one it has no proxy."""
    hosts: tuple[str, ...] = ()
    """Patterns of hosts that it may reach besides those that are known to the egress proxy."""
    is_limited: bool = False
    """Whether it may reach these hosts only."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables besides those of every program, which they replace."""
    cwd: str = ""
    """Working directory as a path, if `directory` is None; empty: the workspace."""
    readable: tuple[str, ...] = ()
    """The only paths it may read, unless empty; relative ones are relative to its working directory."""
    runnable: tuple[str, ...] = ()
    """Paths like those in `readable`, in which it may also start programs."""


class GitEnvironment(Protocol):
    """Access to the agent's git identity."""

    def environment(self) -> Mapping[str, str]: ...


class ProxyEnvironment(Protocol):
    """Way to the egress proxy."""

    def environment(
        self, tool: str, call_id: str, hosts: tuple[str, ...] = (), *, is_limited: bool = False
    ) -> Mapping[str, str]: ...


class ProgramRunner:
    """Runs programs for tools."""

    def __init__(
        self,
        workspace: Path,
        tmp_dir: str,
        *,
        git: GitEnvironment | None = None,
        egress: ProxyEnvironment | None = None,
        launcher: CallLauncherClient | None = None,
        quota: WorkspaceQuota | None = None,
    ) -> None:
        """Set where programs run.

        `git` is for programs that may use the agent's git identity. `egress` leads programs to the network.
        """
        self.workspace = workspace
        self._tmp_dir = tmp_dir
        self._git = git
        self._egress = egress
        self._launcher = launcher or CallLauncherClient()
        self._quota = quota or WorkspaceQuota()

    async def run(self, program: Program, stdout: StreamSink, stderr: StreamSink) -> int | None:
        """Run a program to its end and return its exit code, negative for a signal.

        Returns None if the agent killed it: after its timeout, or because a sink had enough. A
        cancellation kills it, too. Raises OSError if it cannot be started, and ToolFailed if it exceeded a
        limit.
        """
        is_full = bool(await self._quota.find_excess())
        async with (
            output_pipe(stdout) as out,
            output_pipe(stderr) as err,
            input_pipe(program.stdin) as stdin,
        ):
            files = [stdin, out, err]
            if program.directory is not None:
                files.append(program.directory)
            async with self._launcher.call(self._request(program, is_full), files) as call:
                return await _end_of(call, (stdout, stderr), program.timeout_s)

    @asynccontextmanager
    async def serve(self, program: Program, files: Sequence[int]) -> AsyncIterator[StartedCall]:
        """Start a program that lives as long as the context; `files` are its three standard streams.

        Its `stdin` and `timeout_s` are ignored. Raises OSError if it cannot be started.
        """
        is_full = bool(await self._quota.find_excess())
        async with self._launcher.call(self._request(program, is_full), files) as call:
            yield call

    async def find_excess(self) -> str:
        """Return why programs cannot write any bytes to files, or an empty string."""
        return await self._quota.find_excess()

    def _request(self, program: Program, is_full: bool) -> CallRequest:
        limits = self._quota.limits
        return CallRequest(
            argv=program.argv,
            environment=self._environment(program),
            cwd=program.cwd or str(self.workspace),
            offline=program.offline,
            readable=program.readable,
            runnable=program.runnable,
            directories=self._quota.directories,
            max_bytes=limits.size,
            max_files=limits.files,
            is_full=is_full,
        )

    def _environment(self, program: Program) -> dict[str, str]:
        """Return a clean environment: no token, no secret, nothing from the agent's own."""
        return {
            "PATH": PATH,
            "HOME": str(self.workspace),
            "PWD": str(self.workspace),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": self._tmp_dir,
            "CHOIR_CALL_ID": program.call_id,
            **self._proxy_variables(program),
            # after the proxy's, because git servers on this machine are reached through it
            **(self._git.environment() if self._git and program.with_git else {}),
            **program.environment,
        }

    def _proxy_variables(self, program: Program) -> Mapping[str, str]:
        if self._egress is None or not program.tool or program.offline:
            return {}
        return self._egress.environment(
            program.tool, program.call_id, program.hosts, is_limited=program.is_limited
        )


async def _end_of(call: StartedCall, sinks: tuple[StreamSink, ...], timeout_s: float) -> int | None:
    """Wait until a program ends, a sink has enough, or the timeout expires.

    Raises OSError and ToolFailed.
    """
    waiter = asyncio.create_task(call.wait())
    waits = [waiter, *(asyncio.create_task(sink.enough.wait()) for sink in sinks)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not waiter.done():
            return None
        reply = waiter.result()
        if reply.excess:
            raise ToolFailed("over_limit", f"The program was killed: {reply.excess}.")
        if reply.error_number:
            raise OSError(reply.error_number, reply.error)
        return reply.exit_code
    finally:
        for wait in waits:
            wait.cancel()

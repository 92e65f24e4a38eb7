"""Start of one agent process inside its boundary, with the boot line on its standard input.

The child runs `confine` first, which confines it and then executes the agent.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import structlog

from choir_common.confinement import script_path, users
from choir_common.forks.client import ChildProcess, ForkServer
from choir_common.i18n import _
from choir_common.logs.pump import PipeReader
from choir_common.wire.forks import AgentForkRequest
from choir_common.wire.rpc import AgentStartParameters
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.port import LaunchSpec
from choir_control.agents.runtimes.process.boundary import (
    Boundary,
    ProcessLimits,
    common_environment,
    make_boundary,
)
from choir_control.agents.runtimes.process.cgroups import (
    AgentCgroups,
    AgentLimits,
    CgroupError,
    find_own_delegated,
)

log = structlog.get_logger()

# -I: no file of the workspace, which is the working directory, can be imported as a module.
AGENT = (sys.executable, "-I", "-m", "choir_agent")
FORK_SERVER = (sys.executable, "-I", "-m", "choir_agent.fork_server")
TRIAL = (sys.executable, "-I", "-m", "choir_agent.tool_bench", "try")
CONFINE = (sys.executable, "-I", "-S", script_path())
SHARING_AGENTS = 3
"""As many agents share more memory with the fork server than it takes; see docs/decisions/0123."""
PROBE_WITHIN_S = 15.0
NO_VIEW = _(
    "agents can connect to Unix sockets of this user's other programs (docker, ssh-agent), and to any "
    "address without the egress proxy"
)
MAX_BOOT_LINE_BYTES = 60_000  # bytes; a pipe takes 64 KiB before a writer blocks


class ProcessLauncher:
    """Launcher of agent processes, which knows the confinement that this kernel supports."""

    def __init__(
        self,
        *,
        home: Path,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        command: Sequence[str],
        logs: AgentLogs,
        cgroups: AgentCgroups | None,
        agents: Collection[object],
    ) -> None:
        """Configure the launcher; only allow-listed variables of `environment` reach the agent.

        `agents` are those that run, as the runtime changes them.
        `cgroups` are those that agents are placed in; None: below the one of this process, if that is
        delegated.
        """
        self._home = home
        self._environment = dict(environment)
        self._limits = limits
        self._command = tuple(command)
        # The kernel shows the server's environment as that of its forks, and TMPDIR identifies an agent.
        common = common_environment(environment)
        self._fork_server = ForkServer(
            FORK_SERVER,
            {**common, "TMPDIR": str(home / "agents" / "fork-server")},
            lambda: len(agents) >= SHARING_AGENTS,
        )
        self._logs = logs
        self._view: Path | None = None
        self._own_user = False
        self._probed = False
        # Held until the kernel was tested, because agents that start at once need the result, too.
        self._probing = asyncio.Lock()
        self._cgroups = cgroups
        self.missing: tuple[str, ...] = ()
        """What this host does not support of the confinement; known after the first `prepare`."""
        self.call_limits = ""
        """What limits memory, processes and processor time of tool calls, and why; known as `missing` is."""

    async def prepare(self, spec: LaunchSpec, temporary: str = "tmp") -> Boundary:
        """Create the agent's directories and return its boundary; the first call tests the kernel.

        `temporary` is the name of its directory for temporary files, which is emptied. Raises OSError when a
        directory cannot be created or the workspace is missing.
        """
        boundary = await asyncio.to_thread(self._make_directories, spec, temporary)
        async with self._probing:
            if not self._probed:
                await self._probe(boundary)
                await asyncio.to_thread(self._find_cgroups)
                self._probed = True
        return boundary

    async def spawn(self, spec: LaunchSpec, boundary: Boundary) -> tuple[ChildProcess, PipeReader]:
        """Start the agent, and the task that reads its output. Raises OSError.

        This must run in the event loop's thread: the kernel ties the parent-death signal to the forking
        thread.
        """
        line = _boot_line(spec)
        options = [*self._options(spec, boundary), *await self._create_cgroup(spec.agent_id)]
        pump, output = await PipeReader.open(self._logs.writer(spec))
        try:
            return await self._start(options, boundary, line, output), pump
        finally:
            os.close(output)

    async def _start(
        self, options: Sequence[str], boundary: Boundary, line: bytes, output: int
    ) -> ChildProcess:
        """Start the agent as a fork if possible, else with an interpreter of its own."""
        environment = boundary.environment(self._environment)
        if self._forks_agents:
            try:
                request = AgentForkRequest(
                    confinement=tuple(options), environment=dict(environment)
                )
                with _boot_pipe(line) as stdin:
                    return await self._fork_server.fork(request, (stdin, output))
            except OSError as error:
                log.warning(
                    "the fork server failed; the agent loads its own modules", error=str(error)
                )
        with _boot_pipe(line) as stdin:
            return await asyncio.create_subprocess_exec(
                *CONFINE,
                *options,
                "--",
                *self._command,
                stdin=stdin,
                stdout=output,
                stderr=STDOUT,
                env=environment,
                cwd=boundary.workspace,
                start_new_session=True,
            )

    async def spawn_trial(self, spec: LaunchSpec, boundary: Boundary) -> Process:
        """Start the trial program behind the same walls, with pipes. Raises OSError.

        This must run in the event loop's thread, as `spawn`.
        """
        cgroup = await self._create_cgroup(trial_group(spec.agent_id))
        return await asyncio.create_subprocess_exec(
            *CONFINE,
            *self._options(spec, boundary),
            *cgroup,
            "--",
            *TRIAL,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=boundary.environment(self._environment),
            cwd=boundary.workspace,
            start_new_session=True,
        )

    def _options(self, spec: LaunchSpec, boundary: Boundary) -> list[str]:
        """Return the options of the confinement, without the cgroup."""
        return boundary.options(
            os.getpid(), self._view, own_user=self._own_user, offline=bool(spec.egress_key)
        )

    @property
    def _forks_agents(self) -> bool:
        return sys.platform == "linux" and self._command == AGENT

    async def preload(self) -> None:
        """Start to load the modules of agents, which takes a second, without waiting for it."""
        if self._forks_agents:
            try:
                await self._fork_server.start()
            except OSError as error:
                log.warning("cannot start the fork server of agents", error=str(error))

    async def close(self) -> None:
        """End the fork server."""
        await self._fork_server.close()

    @property
    def has_private_view(self) -> bool:
        """Return whether agents get a private file tree; known after the first `prepare`."""
        return self._view is not None

    async def remove_cgroup(self, agent_id: str) -> None:
        """Kill everything in an agent's cgroup and remove it; raises OSError."""
        if self._cgroups is not None:
            await asyncio.to_thread(self._cgroups.remove, agent_id)

    async def _create_cgroup(self, agent_id: str) -> list[str]:
        """Create an agent's cgroup, if there are any; return the options that pass it to `confine`."""
        if self._cgroups is None:
            return []
        limits = AgentLimits(
            memory=self._limits.agent_memory,
            processes=self._limits.processes,
            cpus=self._limits.agent_cpus,
        )
        group = await asyncio.to_thread(self._cgroups.create, agent_id, limits)
        return ["--cgroup", str(group)]

    def _find_cgroups(self) -> None:
        """Use the cgroup that is delegated to control; log which limits are in force, and why."""
        try:
            self._cgroups = self._cgroups or AgentCgroups(find_own_delegated(), self._home)
            self._cgroups.prepare()
            self.call_limits = _("tool calls are limited by cgroups")
            if not self._cgroups.limits_cpu:
                self.call_limits = _(
                    "tool calls are limited by cgroups, but not their processor time: no controller cpu"
                )
        except CgroupError as error:
            self._cgroups = None
            self.call_limits = _(
                "tool calls are limited by a check four times a second, and their processor time by "
                "priority only: {error}"
            ).format(error=str(error))
        log.info("limits of tool calls", limits=self.call_limits)

    def _make_directories(self, spec: LaunchSpec, temporary_name: str) -> Boundary:
        temporary = self._home / "agents" / spec.agent_id / temporary_name
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700, parents=True)
        self._view_base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not spec.workspace.is_dir():
            raise NotADirectoryError(f"the workspace {spec.workspace} is not a directory")
        return make_boundary(spec, self._home, temporary, self._limits, self._environment)

    @property
    def _view_base(self) -> Path:
        """Return an empty directory on which views are mounted, each in its own mount namespace."""
        return self._home / "run" / "view"

    async def _probe(self, boundary: Boundary) -> None:
        """Test which confinement this kernel supports, and log a warning if a part is missing."""
        if sys.platform != "linux":
            self.missing = (
                _("{platform} confines agents by file permissions only").format(
                    platform=sys.platform
                ),
            )
        else:
            self.missing = await self._find_confinement(boundary)
        if self.missing:
            log.warning(
                "this host does not support all walls around agents; use the docker runtime where "
                "agents are not trusted",
                missing=self.missing,
            )

    async def _find_confinement(self, boundary: Boundary) -> tuple[str, ...]:
        """Find out by tests whether agents get a view and a user; return what is missing."""
        obstacle = users.find_obstacle()
        self._own_user = not obstacle
        # Agents of another user than root are that user, who cannot give them another.
        is_root = os.geteuid() == 0
        shared = (
            (_("users of their own ({obstacle}): agents run as root").format(obstacle=obstacle),)
            if is_root
            else ()
        )
        try:
            missing = await self._test_confinement(boundary, self._view_base)
        except OSError as error:
            no_view = _("mount and network namespaces ({error}): {no_view}").format(
                error=str(error), no_view=NO_VIEW
            )
            self._own_user = False
            return no_view, *await self._test_confinement(boundary, None)
        self._view = self._view_base
        return (*missing, *shared) if obstacle else missing

    async def _test_confinement(self, boundary: Boundary, view: Path | None) -> tuple[str, ...]:
        """Return what is missing on this host; raises OSError if the view cannot be made."""
        process = await asyncio.create_subprocess_exec(
            *CONFINE,
            *boundary.options(os.getpid(), view, own_user=self._own_user, offline=True),
            "--",
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env={},
        )
        try:
            async with asyncio.timeout(PROBE_WITHIN_S):
                stdout, stderr = await process.communicate()
        except TimeoutError:
            raise OSError(f"no response within {PROBE_WITHIN_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise OSError(stderr.decode(errors="replace").strip())
        return tuple(orjson.loads(stdout)) if stdout else ()


def trial_group(agent_id: str) -> str:
    """Return the name of a trial's cgroup; no agent's id has a dot."""
    return f"{agent_id}.trial"


def _boot_line(spec: LaunchSpec) -> bytes:
    address = spec.control_address(str(spec.socket_dir))
    boot = AgentStartParameters(
        agent_id=spec.agent_id,
        session_id=spec.session_id,
        epoch=spec.epoch,
        lease_token=spec.lease_token,
        endpoint=address.endpoint,
        ca_pem=address.ca_pem,
        workspace=str(spec.workspace),
        choir_dir=str(spec.choir_dir),
        image_version=spec.image_version,
        egress_socket=spec.egress_socket(str(spec.socket_dir)),
        egress_key=spec.egress_key,
    )
    line = boot.model_dump_json().encode() + b"\n"
    if len(line) > MAX_BOOT_LINE_BYTES:
        raise OSError(f"the boot line has {len(line)} bytes, more than {MAX_BOOT_LINE_BYTES}")
    return line


@contextlib.contextmanager
def _boot_pipe(line: bytes) -> Iterator[int]:
    """Yield the read end of a pipe, which gets the line at the end of the block.

    After an error it gets nothing: a process that was started nevertheless ends then.
    """
    read_end, write_end = os.pipe()
    try:
        yield read_end
        os.write(write_end, line)
    finally:
        os.close(read_end)
        os.close(write_end)

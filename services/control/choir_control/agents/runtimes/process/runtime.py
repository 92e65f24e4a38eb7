"""Agent runtime `ProcessRuntime`, with agents as confined child processes."""

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.forks.client import ChildProcess
from choir_common.i18n import _
from choir_common.logs.pump import PipeReader
from choir_common.wire.local_tools import ToolTrialOrder
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.agent_records import RuntimeWithRecords
from choir_control.agents.runtimes.port import LaunchSpec, RunningAgent
from choir_control.agents.runtimes.process import orphans
from choir_control.agents.runtimes.process.boundary import ProcessLimits
from choir_control.agents.runtimes.process.cgroups import AgentCgroups
from choir_control.agents.runtimes.process.launch import AGENT, ProcessLauncher, trial_group
from choir_control.agents.runtimes.process.orphans import ProcessRecordStore

log = structlog.get_logger()

TRIAL_TMP = "trial-tmp"
KILLED_WITHIN_S = 10.0
LAST_WORDS_S = 1.0


@dataclass(slots=True)
class ProcessAgent:
    """State of one agent from its start to its exit; `process` is None until it was forked."""

    spec: LaunchSpec
    process: ChildProcess | None = None
    output: PipeReader | None = None
    session_over: bool = False
    exited: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_running(self) -> bool:
        """Return whether its process was forked."""
        return self.process is not None

    def describe(self) -> RunningAgent:
        """Return the port's description of the agent."""
        pid = self.process.pid if self.process else None
        spec = self.spec
        return RunningAgent(spec.agent_id, spec.session_id, spec.epoch, str(pid), pid)


class ProcessRuntime(RuntimeWithRecords[ProcessAgent]):
    """`AgentRuntime` with agents as child processes that are killed when control ends."""

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        *,
        limits: ProcessLimits | None = None,
        command: Sequence[str] = AGENT,
        logs: AgentLogs | None = None,
        cgroups: AgentCgroups | None = None,
    ) -> None:
        """Configure the runtime; only allow-listed variables of `environment` reach agents.

        `cgroups` are used instead of those below the cgroup that is delegated to this process.
        """
        self._home = home.resolve()
        super().__init__(logs or AgentLogs(self._home))
        self._launcher = ProcessLauncher(
            home=self._home,
            environment=environment,
            limits=limits or ProcessLimits(),
            command=command,
            logs=self._logs,
            cgroups=cgroups,
            agents=self._agents,
        )
        self._records = ProcessRecordStore(self._home / "run" / "agents")
        self._trials: set[int] = set()
        # Held while forking and while killing leftovers, because a new child could be taken for a leftover.
        self._forking = asyncio.Lock()
        orphans.adopt_orphans()

    @property
    def has_private_view(self) -> bool:
        """Return whether agents see only their own files; known after the first start."""
        return self._launcher.has_private_view

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        """Start the agent and write its boot line to its standard input.

        Raises Conflict when that agent already runs, and Unavailable when it cannot be started.
        """
        agent = self._reserve(ProcessAgent(spec))
        try:
            boundary = await self._launcher.prepare(spec)
            async with self._forking:
                process, agent.output = await self._launcher.spawn(spec, boundary)
                agent.process = process
            self._records.write(spec.agent_id, spec.session_id, spec.epoch, process.pid)
        except OSError as error:
            self._drop_failed_start(agent)
            raise Unavailable(
                _("Cannot start the agent {agent_id}: {error}.").format(
                    agent_id=spec.agent_id, error=error
                )
            ) from error
        except asyncio.CancelledError:
            self._drop_failed_start(agent)
            raise
        self._watch(agent, self._follow(agent, process))
        return agent.describe()

    async def stop(self, agent_id: str, grace_s: float) -> None:
        """Stop the agent: SIGTERM, wait up to `grace_s` seconds, then kill it and everything it started."""
        agent = self._agents.get(agent_id)
        if agent is None or agent.process is None:
            return
        _signal(agent.process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await agent.exited.wait()
        await self._kill(agent)

    async def run_trial(self, spec: LaunchSpec, order: ToolTrialOrder, timeout_s: float) -> bytes:
        """Run the agent's trial program behind the walls of an agent; return its report.

        One at a time for each agent. Raises InvalidRequest with what the program says, and Unavailable.
        """
        try:
            boundary = await self._launcher.prepare(spec, TRIAL_TMP)
            async with self._forking:
                process = await self._launcher.spawn_trial(spec, boundary)
                self._trials.add(process.pid)
        except OSError as error:
            raise Unavailable(
                _("Cannot start the trial: {error}.").format(error=str(error))
            ) from error
        try:
            async with asyncio.timeout(timeout_s):
                report, errors = await process.communicate(order.model_dump_json().encode())
        except TimeoutError:
            raise Unavailable(
                _("The trial did not end within {timeout_s:g} s.").format(timeout_s=timeout_s)
            ) from None
        finally:
            await self._end_trial(spec.agent_id, process, boundary.temporary)
        if process.returncode != 0:
            # the last line: warnings about the host come before it
            lines = errors.decode(errors="replace").strip().splitlines() or [""]
            raise InvalidRequest(lines[-1] or _describe_exit(process.returncode or 0))
        return report

    async def unavailable_reason(self) -> str:
        """Return an empty string: child processes depend on no other service."""
        return ""

    def limitations(self) -> tuple[str, ...]:
        """Return what this host does not support of the confinement; known after the first start."""
        return self._launcher.missing

    def call_limits(self) -> str:
        """Return what limits memory and processes of tool calls, and why; known after the first start."""
        return self._launcher.call_limits

    async def remove_orphans(self) -> int:
        """Kill agents that an earlier control process left running; return how many."""
        killed_count = await asyncio.to_thread(self._remove_recorded)
        await self._launcher.preload()
        return killed_count

    async def hand_over(self) -> None:
        """Do what `close` does: the agents end fast, and are on this host."""
        await self.close()

    async def close(self) -> None:
        """Kill the agents that still run and release the adapter's resources."""
        await asyncio.gather(*(self._kill(agent) for agent in list(self._agents.values())))
        if self._watchers:
            await asyncio.wait(self._watchers, timeout=KILLED_WITHIN_S)
        for watcher in self._watchers:
            watcher.cancel()
        self._end_exits()
        await self._launcher.close()
        await asyncio.to_thread(self._logs.close)

    def _live_pids(self) -> set[int]:
        """Return the pids of running agents and trials."""
        return self._trials | {
            agent.process.pid
            for agent in self._agents.values()
            if agent.process and agent.process.returncode is None
        }

    async def _end_trial(self, agent_id: str, process: Process, temporary: Path) -> None:
        """Kill a trial with all that it started, and remove its temporary files."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        async with self._forking:
            self._trials.discard(process.pid)
            await asyncio.to_thread(orphans.kill_adopted, self._live_pids())
        try:
            await self._launcher.remove_cgroup(trial_group(agent_id))
            await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)
        except OSError as error:
            log.warning("cannot clear up after a trial", agent=agent_id, error=str(error))

    def _drop_failed_start(self, agent: ProcessAgent) -> None:
        """Drop a failed start; if a process was forked nevertheless, kill it and wait for its exit."""
        if agent.process is None:
            del self._agents[agent.spec.agent_id]
            return
        _signal(agent.process, signal.SIGKILL)
        self._watch(agent, self._follow(agent, agent.process))

    async def _follow(self, agent: ProcessAgent, process: ChildProcess) -> None:
        """Wait for the exit, kill leftover processes, archive the log if needed, and report the exit."""
        spec = agent.spec
        code = await process.wait()
        try:
            await self._clear_up(spec.agent_id)
        except OSError as error:
            log.warning("cannot clear up after an agent", agent=spec.agent_id, error=str(error))
        if agent.output is not None:
            await agent.output.settled(LAST_WORDS_S)
        if agent.session_over:
            self._logs.archive(spec.agent_id)
        agent.exited.set()
        await self._report(agent, code, _describe_exit(code))

    async def _clear_up(self, agent_id: str) -> None:
        async with self._forking:
            kill_count = await asyncio.to_thread(orphans.kill_adopted, self._live_pids())
        if kill_count:
            # its launcher of tool calls is among them, unless it ended first
            log.debug("killed what an agent left behind", agent=agent_id, processes=kill_count)
        await self._launcher.remove_cgroup(agent_id)
        self._records.remove(agent_id)

    async def _kill(self, agent: ProcessAgent) -> None:
        if agent.process is None or agent.exited.is_set():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(agent.process.pid, signal.SIGKILL)
        _signal(agent.process, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_WITHIN_S):
                await agent.exited.wait()

    def _remove_recorded(self) -> int:
        count = 0
        for path, record in self._records.left():
            if record is not None and record.agent_id in self._agents:
                continue
            count += record is not None and orphans.kill_recorded(record)
            path.unlink(missing_ok=True)
        return count + orphans.kill_unrecorded(self._home / "agents", self._live_pids())


def _signal(process: ChildProcess, number: signal.Signals) -> None:
    # `process.send_signal` would reap a process that has just ended, and its exit code would be lost.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return _("exit code {code}").format(code=code)
    with contextlib.suppress(ValueError):
        return _("killed by {name}").format(name=signal.Signals(-code).name)
    return _("killed by signal {signal}").format(signal=-code)

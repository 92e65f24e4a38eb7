"""Supervisor that starts children in order, restarts them, and stops them in reverse order.

Used by `Stack` with a table of `ChildSpec`. A child that dies is restarted alone: those that depend on it
keep running and reconnect. If one fails its first start, all are stopped and the reason is raised.
Processes that agents or control leave behind become children of the supervisor (`orphans`) and are killed
before control is started again.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from choir_common.backoff import Backoff
from choir_common.errors import StartupError
from choir_common.forks.client import ChildProcess
from choir_common.i18n import _
from choir_common.logs.retention import LogLimitsSource
from choir_common.redactor import Redactor
from choir_local.child_log import ChildLog
from choir_local.launch import Command, ReadinessCheck, launch, stop_child, wait_ready
from choir_local.liveness import LivenessCheck, LivenessProbe, ReplacementBudget, wait_for_hang
from choir_local.orphans import OrphanReaper, adopting_orphans
from choir_local.stack_state import ChildState, Phase

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
REAP_EVERY_S = 5.0
# seconds; a child that was ready for less time lengthens the pause before the next start
STABLE_S = 1.0

T = TypeVar("T")


class ChildProgram(ReadinessCheck, LivenessCheck, Protocol):
    """Program of a child: how it starts, and whether it is ready and alive."""

    async def prepare_command(self) -> Command:
        """Prepare what the child needs and return its command; called before every start.

        Raises StartupError if the child cannot be started now.
        """


class Launcher(Protocol):
    """Starter of child processes."""

    async def __call__(self, command: Command, log: ChildLog, /) -> ChildProcess:
        """Start a child with its output read into its log. Raises OSError."""


class SupervisorObserver(Protocol):
    """Receiver of the supervisor's progress."""

    def children_changed(self, children: dict[str, ChildState]) -> None:
        """Take the states of all children; called whenever one changes."""

    def all_ready(self) -> None:
        """React to the first time that all children are ready; called once."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A row of the table of children."""

    name: str
    program: ChildProgram
    ready_within: timedelta = timedelta(seconds=90)  # a machine that is busy with other work
    probe: LivenessProbe | None = None
    """Liveness check while it runs; a hung child is killed and restarted."""
    depends_on: tuple[str, ...] = ()
    """Children that must have been ready once before this one starts; they stop after it."""
    stops_before: tuple[str, ...] = ()
    """Further children that stop only after this one."""
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within: timedelta = timedelta(seconds=10)
    source: str = ""
    """Name of its log; defaults to its own name."""


class Supervisor:
    """Supervisor of the children of a table."""

    def __init__(
        self,
        children: Sequence[ChildSpec],
        *,
        logs: Path,
        observer: SupervisorObserver,
        redactor: Redactor | None = None,
        limits: LogLimitsSource | None = None,
        launcher: Launcher = launch,
    ) -> None:
        self._stop = asyncio.Event()
        self._kill_now = asyncio.Event()
        self._failure: StartupError | None = None
        self._observer = observer
        self._orphans = OrphanReaper()
        self.launch = launcher
        self._runners = {
            child.name: _ChildRunner(
                child,
                ChildLog(logs / f"{child.source or child.name}.log", redactor, limits),
                self,
            )
            for child in children
        }

    def stop(self) -> None:
        """Request a stop of all children; a second call kills them."""
        (self._kill_now if self._stop.is_set() else self._stop).set()

    async def run(self) -> None:
        """Run the children until `stop`.

        Raises StartupError if a child fails its first start.
        """
        with adopting_orphans():
            reaping = asyncio.create_task(self._reap_orphans())
            try:
                await self._run_children()
            finally:
                reaping.cancel()
        if self._failure is not None:
            raise self._failure

    async def _run_children(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for runner in self._runners.values():
                tasks.create_task(runner.run())
            for runner in self._runners.values():
                await self.run_unless_stopped(runner.was_ready.wait())
            if not self._stop.is_set():
                self._observer.all_ready()

    async def _reap_orphans(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            self._orphans.reap(self._launched())

    async def kill_leftovers(self) -> int:
        """Kill the processes that agents and control left running; return their number."""
        return await self._orphans.end_strays(self._launched())

    def _launched(self) -> set[int]:
        return {pid for runner in self._runners.values() if (pid := runner.state.pid) is not None}

    def changed(self) -> None:
        """Report the states; called by a runner whose state changed."""
        self._observer.children_changed({name: it.state for name, it in self._runners.items()})

    def fail(self, error: StartupError) -> None:
        """Stop all because of `error`; the first error is the one that is raised."""
        self._failure = self._failure or error
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Return whether all children are being stopped."""
        return self._stop.is_set()

    @property
    def kill_requested(self) -> asyncio.Event:
        """Return the event that is set when there is no time for a clean stop."""
        return self._kill_now

    async def run_unless_stopped(self, work: Coroutine[object, object, T]) -> T | None:
        """Return the result of `work`, or None if the stop comes first."""
        return await _first(work, self._stop)

    async def dependencies_ready(self, child: ChildSpec) -> None:
        """Wait until all dependencies of `child` were ready once, or until the stop."""
        for name in child.depends_on:
            await self.run_unless_stopped(self._runners[name].was_ready.wait())

    async def dependents_stopped(self, child: ChildSpec) -> None:
        """Wait until all children that depend on `child` have ended."""
        for runner in self._runners.values():
            if child.name in (*runner.child.depends_on, *runner.child.stops_before):
                await runner.has_ended.wait()


class _ChildRunner:
    """Loop that runs and restarts one child."""

    def __init__(self, child: ChildSpec, log: ChildLog, supervisor: Supervisor) -> None:
        self.child = child
        self.was_ready = asyncio.Event()
        self.has_ended = asyncio.Event()
        self._log = log
        self._supervisor = supervisor
        self._backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, jitter=0.0)
        self._replacements = ReplacementBudget()
        self.state = ChildState(since=_now(), log=str(self._log.path))

    async def run(self) -> None:
        """Start the child again and again until the supervisor stops."""
        try:
            await self._supervisor.dependencies_ready(self.child)
            while not self._supervisor.stopping:
                await self._run_once()
                if not self._supervisor.stopping:
                    self._count_restart()
                    # short for a child that was killed once, longer for one that keeps failing
                    await self._supervisor.run_unless_stopped(
                        asyncio.sleep(self._backoff.pause_s())
                    )
            self._set("stopped", note="", pid=None)
        finally:
            self.has_ended.set()
            await self._log.close()

    async def _run_once(self) -> None:
        """Start the child and wait until it has ended."""
        self._set("starting")
        try:
            command = await self._supervisor.run_unless_stopped(
                self.child.program.prepare_command()
            )
            if command is None:
                return
            process = await self._supervisor.launch(command, self._log)
        except (StartupError, OSError) as error:
            self._handle_failed_start(error)
            return
        try:
            self._set("starting", pid=process.pid, born=_created_at(process.pid))
            await self._serve(process)
        finally:
            await self._end(process)

    async def _serve(self, process: ChildProcess) -> None:
        """Wait until the child is ready, then until it ends or the supervisor stops."""
        child, supervisor = self.child, self._supervisor
        try:
            await supervisor.run_unless_stopped(
                wait_ready(child.name, process, child.program, child.ready_within, self._log)
            )
        except StartupError as error:
            self._handle_failed_start(error)
            return
        if supervisor.stopping:
            return
        started = asyncio.get_running_loop().time()
        self._set("ready", note="")
        self.was_ready.set()
        await supervisor.run_unless_stopped(self._wait_until_exit(process))
        if asyncio.get_running_loop().time() - started > STABLE_S:
            self._backoff.reset()

    async def _wait_until_exit(self, process: ChildProcess) -> None:
        """Return once the child has ended; kill it if it hangs."""
        probe = self.child.probe
        while probe is not None and await wait_for_hang(process, self.child.program, probe):
            if self._replacements.try_use():
                self._set("ready", note=_("it stopped responding and was killed"))
                process.kill()
                break
            self._set("ready", note=_("it is not responding, and the replacement limit is reached"))
        await process.wait()

    def _handle_failed_start(self, error: StartupError | OSError) -> None:
        """Fail the supervisor if this was the first start; otherwise the start is retried."""
        if not self.was_ready.is_set():
            reason = error if isinstance(error, StartupError) else StartupError(str(error))
            self._supervisor.fail(reason)
        self._set("failed", note=str(error))

    async def _end(self, process: ChildProcess) -> None:
        """Stop the process after its dependents, and kill the rest of its process group."""
        if self._supervisor.stopping and process.returncode is None:
            self._set("stopping")
            await self._supervisor.dependents_stopped(self.child)
        stopping = stop_child(process, self.child.stop_signal, self.child.stop_within)
        await _first(stopping, self._supervisor.kill_requested)
        if process.returncode is None:
            process.kill()
        code = await process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # Before the next start: the new process closes their calls and grants their locks to others.
        await self._supervisor.kill_leftovers()
        self.state = self.state.model_copy(update={"last_exit": code, "pid": None, "born": None})

    def _count_restart(self) -> None:
        note = self.state.note or _("ended with code {last_exit}").format(
            last_exit=self.state.last_exit
        )
        self.state = self.state.model_copy(update={"restarts": self.state.restarts + 1})
        self._set("restarting", note=note)

    def _set(self, phase: Phase, **more: str | float | None) -> None:
        changes = {"phase": phase, "since": _now(), **more}
        self.state = self.state.model_copy(update=changes)
        self._supervisor.changed()


async def _first(work: Coroutine[object, object, T], event: asyncio.Event) -> T | None:
    """Return the result of `work`, or None and cancel it if `event` is set first."""
    task = asyncio.ensure_future(work)
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        task.cancel()
        waiter.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)


def _created_at(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def _now() -> datetime:
    return datetime.now(UTC)

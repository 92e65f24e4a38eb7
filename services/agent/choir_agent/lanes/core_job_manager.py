"""Tasks of the open core jobs, within the lifetime of the edge lanes.

CoreStarted starts a job, an injection wakes it, and Cancelled cancels it.
"""

import asyncio
from types import TracebackType
from typing import Self

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.lanes.core_job import CoreJobFactory, CoreJobRunner
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_state import JobState
from choir_common.lanes import core_lane
from choir_common.wire.events import (
    BudgetGranted,
    Cancelled,
    CoreStarted,
    InjectedInstruction,
    ToolResultCommitted,
)

log = structlog.get_logger("choir.agent.jobs")

SESSION_LANE = "session"


class CoreJobManager:
    """The running core jobs; leaving the context interrupts them."""

    def __init__(self, arbiter: Arbiter, factory: CoreJobFactory) -> None:
        self._arbiter = arbiter
        self._factory = factory
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[str, CoreJobRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        for job in self._arbiter.state.jobs:
            log.info("resuming an interrupted core job", job=job.name)
            self._start(job)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Left without an error means that the session stops: the jobs stay open for the next epoch.
        if kind is None:
            self._leave_open()
        group, self._group = self._group, None
        if group is not None:
            await group.__aexit__(kind, error, trace)

    def on_event(self, event: CommittedEvent) -> None:
        """Handle a committed event; never blocks."""
        match event.payload:
            case CoreStarted(job_id=job_id):
                job = next((j for j in self._arbiter.state.jobs if j.turn_id == job_id), None)
                if job is not None:
                    self._start(job)
            case InjectedInstruction(turn_id=str(job_id)) if job_id in self._running:
                self._running[job_id].wake()
            case ToolResultCommitted(turn_id=job_id) if job_id in self._running:
                self._running[job_id].result_committed()
            case BudgetGranted():
                for runner in self._running.values():
                    runner.wake()
            case Cancelled(turn_id=str(job_id)) if job_id in self._running:
                self._running[job_id].cancel()
            case _:
                pass

    def cancel(self, name: str, signal: int, *, edge: str | None = None) -> None:
        """Cancel a job by name at the user's request; an unknown name has no effect.

        With the edge lane of a conversation, only a job that it has started.
        """
        job = self._arbiter.state.find_job(name)
        if job is not None and edge not in (None, job.edge):
            job = None
        job_id = None if job is None else job.turn_id
        cancelled = Cancelled(target=core_lane(name), turn_id=job_id, by="user", signal=signal)
        self._arbiter.commit(SESSION_LANE, cancelled)

    def _leave_open(self) -> None:
        """Interrupt every job without writing events about it: the next epoch resumes the jobs."""
        self._arbiter.suspend()
        for task in self._tasks:
            task.cancel()

    def _start(self, job: JobState) -> None:
        if self._group is None or job.turn_id in self._running:
            # Before `__aenter__` a new job is left to it; after `__aexit__` no job starts any more.
            return
        runner = self._factory.create(job)
        task = self._group.create_task(runner.run(), name=job.lane)
        self._running[job.turn_id] = runner
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._running.pop(job.turn_id, None))

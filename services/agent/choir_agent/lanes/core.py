"""One core job, from the point where the log left it to its single terminal event.

Run by `jobs` in its own task; calls `think` and the arbiter's `use`. Like a turn it has no state besides
the log: it reads the folded state, makes the next move, and repeats.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import assert_never

import structlog

from choir_agent import spans
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.reserve import BudgetSpent
from choir_agent.control.client import says_stop
from choir_agent.lanes.core_moves import (
    AwaitInfo,
    Correct,
    Deliver,
    End,
    next_core_move,
    out_of_time,
    time_left,
)
from choir_agent.lanes.core_states import ENDS, CoreState, CoreTrigger, after
from choir_agent.lanes.deliverable import Validate
from choir_agent.lanes.next_move import Think, UseTools
from choir_agent.lanes.skill_steps import SkillSteps
from choir_agent.lanes.think import Thinker
from choir_agent.log.state import JobState
from choir_agent.models.model import ModelFailed
from choir_agent.settings import CurrentSettings
from choir_common.clock import Clock, SteadyTime
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreOutcome, CoreStopped, InjectedInstruction
from choir_common.wire.json import JsonObject

log = structlog.get_logger("choir.agent.core")

# An absent user must not block a job indefinitely.
INFO_PATIENCE_S = 600.0
NO_ANSWER = (
    "Nobody has answered what you asked for. Go on with your best assumption and name it in the "
    "result, or end with what you have."
)
BROKEN = "Something broke inside me while I worked on it; the log has the details."


class CoreJob:
    """Runner of one core job in this process."""

    def __init__(
        self,
        job: JobState,
        arbiter: Arbiter,
        thinker: Thinker,
        skills: SkillSteps,
        current: Callable[[], CurrentSettings],
        clock: Clock,
        validate: Validate,
        on_state: Callable[[str, CoreState], None],
    ) -> None:
        self._id = job.turn_id
        self._lane = job.lane
        self._arbiter = arbiter
        self._thinker = thinker
        self._skills = skills
        self._current = current
        # Time is measured from the job's start event; a changed system clock must not end the job.
        self._time = SteadyTime(clock)
        self._validate = validate
        self._on_state = on_state
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.state = CoreState.IDLE

    def wake(self) -> None:
        """Read the log again: something was injected."""
        self._news.set()

    def cancel(self) -> None:
        """Interrupt the current work; the log already has the cancellation."""
        # A job that has not started yet reads the cancellation from the log.
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Make moves until the job has its terminal event.

        Raises Fenced or Unauthorized if the session is no longer ours. If the task is cancelled without a
        cancellation in the log, the job stays open: this process is ending, and the next epoch resumes the
        job.
        """
        job = self._job()
        if job is None:
            return
        self._task = asyncio.current_task()
        structlog.contextvars.bind_contextvars(lane=self._lane)
        self._move(CoreTrigger.START)
        try:
            with spans.lane_work(self._lane, self._id):
                await self._within_its_time(job)
        except asyncio.CancelledError:
            left = self._job()
            if left is None or not left.cancelled:
                raise
            self._end(left, End("cancelled", ""))
        except Exception as error:
            # Outermost frame of the job: a bug ends the job; only an error from control ends the agent.
            left = self._job()
            if says_stop(error) or left is None:
                raise
            log.exception("a core job broke", job=left.name)
            self._end(left, End("error", BROKEN))

    async def _within_its_time(self, job: JobState) -> None:
        left = time_left(job, self._budgets(), self._now())
        try:
            async with asyncio.timeout(max(0.0, left.total_seconds())) as limit:
                await self._make_moves()
        except TimeoutError:
            late = self._job()
            # A TimeoutError from inside the job is not the end of its time.
            if late is None or not limit.expired():
                raise
            self._end(late, out_of_time(late, self._budgets()))

    async def _make_moves(self) -> None:
        self._move(CoreTrigger.LOAD)
        while (job := self._job()) is not None:
            move = next_core_move(job, self._budgets(), self._now(), self._validate)
            match move:
                case Think():
                    await self._think(job)
                case UseTools():
                    self._move(CoreTrigger.TOOL_PROPOSAL)
                    await self._arbiter.use(self._lane, self._id, move.calls)
                    self._move(CoreTrigger.TOOL_RESULT)
                case AwaitInfo():
                    self._move(CoreTrigger.NEED_INFO)
                    await self._await_info(job)
                    self._move(CoreTrigger.TOOL_RESULT)
                case Correct():
                    self._move(CoreTrigger.INJECTED)
                    self._tell(move.text)
                case Deliver():
                    self._move(CoreTrigger.RESULT)
                    self._stop(job, "completed", move.result)
                case End():
                    self._end(job, move)
                case _:
                    assert_never(move)

    async def _think(self, job: JobState) -> None:
        if self._skills.settle(self._lane, self._id):
            return
        self._move(CoreTrigger.CALL_MODEL)
        try:
            await self._thinker.think(job)
        except BudgetSpent as error:
            self._end(job, End("budget_exceeded", error.message))
        except ModelFailed as error:
            log.warning("the model gave a job no answer", job=job.name, reason=error.message)
            self._end(job, End("error", self._thinker.explain(error)))

    async def _await_info(self, job: JobState) -> None:
        log.info("a core job needs something", job=job.name)
        try:
            async with asyncio.timeout(INFO_PATIENCE_S):
                while (waiting := self._job()) is not None and waiting.needs is not None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self._tell(NO_ANSWER)

    def _tell(self, text: str) -> None:
        told = InjectedInstruction(target=self._lane, turn_id=self._id, text=text, by="session")
        self._arbiter.commit(self._lane, told)

    def _end(self, job: JobState, end: End) -> None:
        self._arbiter.abandon(self._lane, self._id)
        self._move(CoreTrigger.STOP)
        self._stop(job, end.outcome, None, end.reason)

    def _stop(
        self, job: JobState, outcome: CoreOutcome, result: JsonObject | None, reason: str = ""
    ) -> None:
        # `job` may be older than the newest events.
        now = self._job() or job
        took = self._now() - datetime.fromisoformat(job.started_at)
        stopped = CoreStopped(
            job_id=self._id,
            job_name=job.name,
            outcome=outcome,
            result=result,
            reason=reason,
            steps=now.steps,
            tool_calls=now.proposed,
            tokens=now.tokens,
            duration_ms=round(max(0.0, took.total_seconds() * 1000), 3),
        )
        self._skills.leave(self._lane, self._id)
        self._arbiter.commit(self._lane, stopped)
        log.info("a core job ended", job=job.name, outcome=outcome, steps=now.steps)

    def _job(self) -> JobState | None:
        return next((job for job in self._arbiter.state.jobs if job.turn_id == self._id), None)

    def _budgets(self) -> Budgets:
        return self._current().settings.budgets

    def _now(self) -> datetime:
        return self._time.now()

    def _move(self, trigger: CoreTrigger) -> None:
        if self.state not in ENDS:
            before, self.state = self.state, after(self.state, trigger)
            log.info(
                "lane state", lane=self._lane, state=self.state, before=before, trigger=trigger
            )
            self._on_state(self._lane, self.state)

"""One core job, from the point where the log left it to its single terminal event.

Each job runs in its own task. Like a turn it has no state besides the log: it reads the folded state, makes
the next move, and repeats.
"""

import asyncio
import contextlib
from dataclasses import replace
from datetime import datetime
from typing import Protocol, assert_never

import structlog

from choir_agent import tracing_spans
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.budgets.money import MoneyBudgetExceeded
from choir_agent.control_client.control_client import is_session_over
from choir_agent.lanes.core_job_moves import (
    CompleteJob,
    EndJob,
    RequestCorrection,
    WaitForInfo,
    end_for_time_limit,
    next_core_move,
    time_left,
    unknown_tools,
)
from choir_agent.lanes.core_states import FINAL_STATES, CoreState, CoreTrigger, next_core_state
from choir_agent.lanes.lane_status import LaneStateRecorder
from choir_agent.lanes.model_caller import ModelCaller
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.lanes.turn_moves import CallModel, RunTools
from choir_agent.log.session_state import CallState, JobState
from choir_agent.settings import SettingsSource
from choir_agent.tools.registry import ToolRegistry
from choir_common.clock import Clock, SteadyClock
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreOutcome, CoreStopped, InjectedInstruction, Reply
from choir_common.wire.model import JsonObject
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.core")

# An absent user must not block a job indefinitely.
INFO_TIMEOUT_S = 600.0
NO_INFO_TEXT = (
    "Your request for information was not answered. Continue with your best assumption and state "
    "it in the result, or finish with what you have."
)
MONEY_POLL_S = 15.0
"""Pause before a job asks again for money; the configuration may have changed, or the day be over."""
INTERNAL_ERROR_TEXT = "An internal error occurred while I worked on it; see the log for details."


class JobModel(Protocol):
    """What decides a job's next output: the lane's model, or a harness."""

    async def think(self, job: JobState) -> None:
        """Record the next output of the job; raises ModelFailed or BudgetExceeded."""
        ...

    def explain(self, error: ModelFailed, lane: str) -> str:
        """Return a message for the user about a failure."""
        ...

    def outage(self, lane: str) -> str:
        """Return why it does not answer now, or an empty text."""
        ...


class RunningHarness(JobModel, Protocol):
    """A harness that does a job."""

    def result_committed(self) -> None:
        """Look for results of the calls that run; must not block."""
        ...

    async def answer_requests(self) -> None:
        """Answer the requests whose calls run, each as soon as it has a result."""
        ...

    async def close(self) -> None:
        """End the harness."""
        ...


class HarnessFactory(Protocol):
    """Factory for the harnesses of jobs."""

    def for_job(self, job: JobState) -> RunningHarness:
        """Return the harness that does a job, not started yet."""
        ...


class CoreJobRunner:
    """Runner of one core job in this process."""

    def __init__(
        self,
        job: JobState,
        *,
        arbiter: Arbiter,
        model: JobModel,
        harness: RunningHarness | None,
        skills: SkillStepper,
        tools: ToolRegistry,
        settings: SettingsSource,
        clock: Clock,
        status: LaneStateRecorder,
    ) -> None:
        self._id = job.turn_id
        self._lane = job.lane
        self._arbiter = arbiter
        self._harness = harness
        self._model = harness or model
        self._skills, self._tools = skills, tools
        self._settings = settings
        # Time is measured from the job's start event; a changed system clock must not end the job.
        self._time = SteadyClock(clock)
        self._status = status
        self._news = asyncio.Event()
        self._refusal = ""
        """Why the budget in money does not allow the next call."""
        self._task: asyncio.Task[None] | None = None
        self.state = CoreState.IDLE

    def wake(self) -> None:
        """Read the log again: something was injected, or a budget extended."""
        self._news.set()

    def result_committed(self) -> None:
        """Tell the harness, if one does the job, that a call has its result."""
        if self._harness is not None:
            self._harness.result_committed()

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
            with tracing_spans.lane_span(self._lane, self._id):
                await self._run_with_time_limit(job)
        except asyncio.CancelledError:
            job = self._job()
            if job is None or not job.cancelled:
                raise
            self._end(job, EndJob("cancelled", ""))
        except Exception as error:
            # Outermost frame of the job: a bug ends the job; only an error from control ends the agent.
            job = self._job()
            if is_session_over(error) or job is None:
                raise
            log.exception("core job failed with an internal error", job=job.name)
            self._end(job, EndJob("error", INTERNAL_ERROR_TEXT))

    async def _run_with_time_limit(self, job: JobState) -> None:
        remaining = time_left(job, self._budgets(), self._now())
        try:
            async with asyncio.timeout(max(0.0, remaining.total_seconds())) as limit:
                try:
                    await self._make_moves()
                finally:
                    # It must have ended before the job has.
                    if self._harness is not None:
                        await self._harness.close()
        except TimeoutError:
            unfinished = self._job()
            # A TimeoutError from inside the job is not the end of its time.
            if unfinished is None or not limit.expired():
                raise
            end = end_for_time_limit(unfinished, self._budgets())
            outage = self._model.outage(self._lane)
            reason = f"{end.reason} Its model did not answer: {outage}" if outage else end.reason
            reason = f"{reason} It waited for money. {self._refusal}" if self._refusal else reason
            self._end(unfinished, replace(end, reason=reason))

    async def _make_moves(self) -> None:
        self._move(CoreTrigger.LOAD)
        while (job := self._job()) is not None:
            move = next_core_move(job, self._budgets(), self._now())
            match move:
                case CallModel():
                    await self._think(job)
                case RunTools():
                    self._move(CoreTrigger.TOOL_PROPOSAL)
                    await self._run_calls(move.calls)
                    self._move(CoreTrigger.TOOL_RESULT)
                case WaitForInfo():
                    self._move(CoreTrigger.NEED_INFO)
                    await self._await_info(job)
                    self._move(CoreTrigger.TOOL_RESULT)
                case RequestCorrection():
                    self._move(CoreTrigger.INJECTED)
                    self._tell(move.text)
                case CompleteJob():
                    self._move(CoreTrigger.RESULT)
                    self._stop(job, "completed", move.result)
                case EndJob():
                    self._end(job, move)
                case _:
                    assert_never(move)

    async def _run_calls(self, calls: tuple[CallState, ...]) -> None:
        if self._harness is None:
            await self._arbiter.run_calls(self._lane, self._id, calls)
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._harness.answer_requests())
            # every call gets a result, so the answers end with the calls
            await self._arbiter.run_calls(self._lane, self._id, calls)

    async def _think(self, job: JobState) -> None:
        refusal = unknown_tools(job, self._tools.tools_of_jobs()) or self._skills.begin(job)
        if refusal:
            self._end(job, EndJob("error", refusal))
            return
        if self._skills.settle(self._lane, self._id):
            return
        self._move(CoreTrigger.CALL_MODEL)
        before = self._arbiter.state
        try:
            await self._model.think(job)
            self._refusal = ""
        except MoneyBudgetExceeded as error:
            question = error.event(before, self._budgets(), dm=job.dm, lane=self._lane)
            await self._await_money(job, error, is_new=question is not None)
        except BudgetExceeded as error:
            self._end(job, EndJob("budget_exceeded", error.message))
        except ModelFailed as error:
            log.warning("model call of a core job failed", job=job.name, error=error.message)
            self._end(job, EndJob("error", self._model.explain(error, self._lane)))

    async def _await_info(self, job: JobState) -> None:
        log.info("core job waits for information", job=job.name)
        try:
            async with asyncio.timeout(INFO_TIMEOUT_S):
                while (job_now := self._job()) is not None and job_now.needs is not None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self._tell(NO_INFO_TEXT)

    async def _await_money(
        self, job: JobState, refusal: MoneyBudgetExceeded, *, is_new: bool
    ) -> None:
        """Ask the user once for a refusal, and wait until the budget may have been extended.

        The job stays open, also through crashes: nothing that it has paid for is lost.
        """
        self._refusal = refusal.message
        if is_new:
            log.info("core job waits for money", job=job.name, budget=refusal.budget)
            text = f"The core job {job.name} waits. {refusal.message}"
            notice = Reply(turn_id=self._id, dm=job.dm, text=text, kind="notice")
            self._arbiter.commit(self._lane, notice)
        self._move(CoreTrigger.NEED_INFO)
        budgets = self._budgets()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MONEY_POLL_S):
                while self._arbiter.state.exhausted is not None and self._budgets() == budgets:
                    self._news.clear()
                    await self._news.wait()
        self._move(CoreTrigger.TOOL_RESULT)

    def _tell(self, text: str) -> None:
        injected = InjectedInstruction(target=self._lane, turn_id=self._id, text=text, by="session")
        self._arbiter.commit(self._lane, injected)

    def _end(self, job: JobState, end: EndJob) -> None:
        self._arbiter.close_open_calls(self._lane, self._id)
        self._move(CoreTrigger.STOP)
        self._stop(job, end.outcome, None, end.reason)

    def _stop(
        self, job: JobState, outcome: CoreOutcome, result: JsonObject | None, reason: str = ""
    ) -> None:
        # `job` may be older than the newest events.
        now = self._job() or job
        took = self._now() - datetime.fromisoformat(job.started_at)
        event = CoreStopped(
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
        self._arbiter.commit(self._lane, event)
        log.info("a core job ended", job=job.name, outcome=outcome, steps=now.steps)

    def _job(self) -> JobState | None:
        return next((job for job in self._arbiter.state.jobs if job.turn_id == self._id), None)

    def _budgets(self) -> Budgets:
        return self._settings.current().settings.budgets

    def _now(self) -> datetime:
        return self._time.now()

    def _move(self, trigger: CoreTrigger) -> None:
        if self.state not in FINAL_STATES:
            before, self.state = self.state, next_core_state(self.state, trigger)
            log.info(
                "lane state changed",
                lane=self._lane,
                state=self.state,
                before=before,
                trigger=trigger,
            )
            final = self.state in FINAL_STATES
            self._status.record_state(self._lane, self.state, final=final)


class CoreJobFactory:
    """Factory of the runners of core jobs."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        model: ModelCaller,
        harnesses: HarnessFactory,
        skills: SkillStepper,
        tools: ToolRegistry,
        settings: SettingsSource,
        clock: Clock,
        status: LaneStateRecorder,
    ) -> None:
        self._arbiter = arbiter
        self._model, self._harnesses = model, harnesses
        self._skills, self._tools = skills, tools
        self._settings = settings
        self._clock = clock
        self._status = status

    def create(self, job: JobState) -> CoreJobRunner:
        """Return a runner for an open job of the log."""
        return CoreJobRunner(
            job,
            arbiter=self._arbiter,
            model=self._model,
            harness=self._harnesses.for_job(job) if job.briefing.harness else None,
            skills=self._skills,
            tools=self._tools,
            settings=self._settings,
            clock=self._clock,
            status=self._status,
        )

"""Decide what an open core job needs next, from the log's state alone: pure (spec 7.3).

Called by `core` again and again until the job has ended; a job that a crash cut off anywhere is gone on with
by the very same decision.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from choir_agent.lanes.deliverable import Deliverable, Misfit, Validate, read_deliverable
from choir_agent.lanes.next_move import Think, UseTools
from choir_agent.log.state import CallStage, JobState
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreOutcome
from choir_common.wire.json import JsonObject

MAX_RESUMES = 3
"""Crashes without a step in between; then it is the job that kills us."""
MAX_CORRECTIONS = 2


@dataclass(frozen=True, slots=True)
class AwaitInfo:
    """Wait for what the job has asked for."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The job has its result."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Correct:
    """Tell the model how its result misses the asked shape."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The job ends without a result."""

    outcome: CoreOutcome
    reason: str


CoreMove = Think | UseTools | AwaitInfo | Deliver | Correct | End


def next_core_move(job: JobState, budgets: Budgets, now: datetime, validate: Validate) -> CoreMove:
    """Return the next move of an open job; `now` is aware, UTC."""
    ended = _must_end(job, budgets, now)
    if ended is not None:
        return ended
    if any(call.stage is not CallStage.DONE for call in job.calls):
        if job.proposed > budgets.per_job_max_tool_calls:
            limit = budgets.per_job_max_tool_calls
            return End(
                "budget_exceeded",
                f"A job may make {limit} tool calls, and it asked for more "
                "(setting budgets.per_job_max_tool_calls).",
            )
        return UseTools(job.calls)
    if job.needs is not None:
        return AwaitInfo()
    if job.output is not None and not job.output.tool_calls and not job.news:
        return _judged(job, job.output.text, validate)
    if job.steps >= budgets.per_job_max_steps:
        limit = budgets.per_job_max_steps
        return End(
            "budget_exceeded",
            f"A job may call the model {limit} times, and it had no result by then "
            "(setting budgets.per_job_max_steps).",
        )
    return Think()


def time_left(job: JobState, budgets: Budgets, now: datetime) -> timedelta:
    """Return how long a job may still run; what it took before a crash counts."""
    allowed_ms = budgets.per_job_wall_time_ms
    asked_ms = job.briefing.tool_constraints.time_budget_ms
    if asked_ms:
        allowed_ms = min(allowed_ms, asked_ms)
    allowed = timedelta(milliseconds=allowed_ms)
    # a clock that was set back must not lengthen it
    return min(allowed, allowed - (now - datetime.fromisoformat(job.started_at)))


def out_of_time(job: JobState, budgets: Budgets) -> End:
    """Return the end of a job whose time is up."""
    asked_ms = job.briefing.tool_constraints.time_budget_ms
    if asked_ms and asked_ms < budgets.per_job_wall_time_ms:
        return End("budget_exceeded", f"Its {asked_ms / 1000:g} s are over (time_budget_ms).")
    limit_s = budgets.per_job_wall_time_ms / 1000
    return End(
        "budget_exceeded", f"Its {limit_s:g} s are over (setting budgets.per_job_wall_time_ms)."
    )


def _must_end(job: JobState, budgets: Budgets, now: datetime) -> End | None:
    if job.cancelled:
        return End("cancelled", "")
    if job.resumes >= MAX_RESUMES:
        return End("crashed", f"The agent crashed {job.resumes} times without a step in between.")
    if time_left(job, budgets, now) <= timedelta():
        return out_of_time(job, budgets)
    return None


def _judged(job: JobState, text: str, validate: Validate) -> CoreMove:
    read = read_deliverable(text, job.briefing.output_schema, validate)
    if isinstance(read, Deliverable):
        return Deliver(read.result)
    return _after_misfit(job, read)


def _after_misfit(job: JobState, misfit: Misfit) -> CoreMove:
    if job.corrections >= MAX_CORRECTIONS:
        return End("error", f"Its result does not have the asked shape: {misfit.why}")
    return Correct(
        f"Your result does not have the asked shape: {misfit.why} "
        "Answer again with the whole result, corrected."
    )

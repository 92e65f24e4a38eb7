"""The next move of an open core job, decided from the folded state alone. Pure.

Called by `core` repeatedly until the job has ended. A job that a crash interrupted is resumed by the same
decision.
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
"""Crashes without a step in between; at this number the job itself is taken for the cause."""
MAX_CORRECTIONS = 2


@dataclass(frozen=True, slots=True)
class AwaitInfo:
    """Wait for information that the job has asked for."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """End the job with its result."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Correct:
    """Ask the model to correct a result that does not match the requested schema."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """End the job without a result."""

    outcome: CoreOutcome
    reason: str


CoreMove = Think | UseTools | AwaitInfo | Deliver | Correct | End


def next_core_move(job: JobState, budgets: Budgets, now: datetime, validate: Validate) -> CoreMove:
    """Return the next move of an open job; `now` is timezone-aware UTC."""
    ended = _must_end(job, budgets, now)
    if ended is not None:
        return ended
    # Open calls first: after a crash they are resumed before anything else.
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
    # Checked after the result: a job that has its result needs no further step.
    if job.steps >= budgets.per_job_max_steps:
        limit = budgets.per_job_max_steps
        return End(
            "budget_exceeded",
            f"A job may call the model {limit} times, and it had no result by then "
            "(setting budgets.per_job_max_steps).",
        )
    return Think()


def time_left(job: JobState, budgets: Budgets, now: datetime) -> timedelta:
    """Return the remaining wall time of a job; time before a crash counts."""
    allowed_ms = budgets.per_job_wall_time_ms
    asked_ms = job.briefing.tool_constraints.time_budget_ms
    if asked_ms:
        allowed_ms = min(allowed_ms, asked_ms)
    allowed = timedelta(milliseconds=allowed_ms)
    # A clock that was set back must not extend the limit.
    return min(allowed, allowed - (now - datetime.fromisoformat(job.started_at)))


def out_of_time(job: JobState, budgets: Budgets) -> End:
    """Return the end of a job that has used up its wall time."""
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

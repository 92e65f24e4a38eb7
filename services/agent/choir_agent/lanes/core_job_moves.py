"""The next move of an open core job, decided from the folded state alone. Pure.

A job that a crash interrupted is resumed by the same decision. The job's result is the model's final text.
With an `output_schema` the text must be valid JSON for it; a code fence around it is accepted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from pydantic import JsonValue

from choir_agent.lanes.turn_moves import CallModel, RunTools
from choir_agent.log.session_state import CallStage, JobState
from choir_common.json_schema import find_violations
from choir_common.wire.config import Budgets
from choir_common.wire.core_jobs import unknown_tools_message
from choir_common.wire.events import CoreOutcome
from choir_common.wire.model import JsonObject

MAX_RESUMES = 3
"""Crashes without a step in between; at this number the job itself is taken for the cause."""
MAX_CORRECTIONS = 2
MCP_PREFIX = "mcp."
_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JobResult:
    """A result that matches the requested schema."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class InvalidResult:
    """The reason why a text is not a valid result."""

    why: str


def parse_job_result(text: str, schema: JsonObject | None) -> JobResult | InvalidResult:
    """Return the parsed result; without a schema, the text itself."""
    text = text.strip()
    if not text:
        return InvalidResult("it is empty.")
    if schema is None:
        return JobResult({"text": text})
    fenced = _FENCE.match(text)
    try:
        value: JsonValue = orjson.loads(fenced.group(1) if fenced else text)
    except orjson.JSONDecodeError as error:
        return InvalidResult(f"it is not JSON ({error}); write nothing before or after the JSON.")
    faults = find_violations(schema, value)
    if faults:
        return InvalidResult(f"{'; '.join(faults)}.")
    return JobResult(value if isinstance(value, dict) else {"value": value})


def unknown_tools(job: JobState, available: Sequence[str]) -> str:
    """Return why a job that has not begun cannot, if its briefing names tools that there are not.

    Tools of MCP servers are not checked: after a restart of the agent their servers may still be starting.
    """
    names = job.briefing.tool_constraints.allowed_tools
    if job.steps:
        return ""
    return unknown_tools_message(
        [name for name in names if not name.startswith(MCP_PREFIX)], available
    )


@dataclass(frozen=True, slots=True)
class WaitForInfo:
    """Wait for information that the job has asked for."""


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """End the job with its result."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class RequestCorrection:
    """Ask the model to correct a result that does not match the requested schema."""

    text: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """End the job without a result."""

    outcome: CoreOutcome
    reason: str


CoreJobMove = CallModel | RunTools | WaitForInfo | CompleteJob | RequestCorrection | EndJob


def next_core_move(job: JobState, budgets: Budgets, now: datetime) -> CoreJobMove:
    """Return the next move of an open job; `now` is timezone-aware UTC."""
    end = _must_end(job, budgets, now)
    if end is not None:
        return end
    # Open calls first: after a crash they are resumed before anything else.
    if any(call.stage is not CallStage.DONE for call in job.calls):
        if job.proposed > budgets.per_job_max_tool_calls:
            limit = budgets.per_job_max_tool_calls
            return EndJob(
                "budget_exceeded",
                f"The job exceeded its limit of {limit} tool calls (setting "
                "budgets.per_job_max_tool_calls).",
            )
        return RunTools(job.calls)
    if job.needs is not None:
        return WaitForInfo()
    if job.output is not None and not job.output.tool_calls and not job.news:
        return _move_for_result(job, job.output.text)
    # Checked after the result: a job that has its result needs no further step. The outputs of a harness are
    # its requests, which count as tool calls.
    if not job.briefing.harness and job.steps >= budgets.per_job_max_steps:
        limit = budgets.per_job_max_steps
        return EndJob(
            "budget_exceeded",
            f"The job had no result after its limit of {limit} model calls (setting "
            "budgets.per_job_max_steps).",
        )
    return CallModel()


def time_left(job: JobState, budgets: Budgets, now: datetime) -> timedelta:
    """Return the remaining wall time of a job; time before a crash counts."""
    allowed_ms = budgets.per_job_wall_time_ms
    asked_ms = job.briefing.tool_constraints.time_budget_ms
    if asked_ms:
        allowed_ms = min(allowed_ms, asked_ms)
    allowed = timedelta(milliseconds=allowed_ms)
    # A clock that was set back must not extend the limit.
    return min(allowed, allowed - (now - datetime.fromisoformat(job.started_at)))


def end_for_time_limit(job: JobState, budgets: Budgets) -> EndJob:
    """Return the end of a job that has used up its wall time."""
    asked_ms = job.briefing.tool_constraints.time_budget_ms
    if asked_ms and asked_ms < budgets.per_job_wall_time_ms:
        return EndJob(
            "budget_exceeded",
            f"It exceeded its time limit of {asked_ms / 1000:g} s (time_budget_ms).",
        )
    limit_s = budgets.per_job_wall_time_ms / 1000
    return EndJob(
        "budget_exceeded",
        f"It exceeded its time limit of {limit_s:g} s (setting budgets.per_job_wall_time_ms).",
    )


def _must_end(job: JobState, budgets: Budgets, now: datetime) -> EndJob | None:
    if job.cancelled:
        return EndJob("cancelled", "")
    if job.resumes >= MAX_RESUMES:
        return EndJob(
            "crashed", f"The agent crashed {job.resumes} times without progress of the job."
        )
    if time_left(job, budgets, now) <= timedelta():
        return end_for_time_limit(job, budgets)
    return None


def _move_for_result(job: JobState, text: str) -> CoreJobMove:
    result = parse_job_result(text, job.briefing.output_schema)
    if isinstance(result, JobResult) and _lacks_skill(job):
        how = f"ended as {job.skill_outcome}" if job.skill_outcome else "did not end"
        return EndJob("error", f"Its skill {job.briefing.skill!r} {how}. It said: {text}")
    if isinstance(result, JobResult):
        return CompleteJob(result.result)
    return _move_for_invalid_result(job, result)


def _lacks_skill(job: JobState) -> bool:
    """Return whether a job was to run a skill, and that was not completed."""
    return bool(job.briefing.skill) and job.skill_outcome != "completed"


def _move_for_invalid_result(job: JobState, invalid: InvalidResult) -> CoreJobMove:
    if job.corrections >= MAX_CORRECTIONS:
        return EndJob("error", f"Its result does not match the requested schema: {invalid.why}")
    return RequestCorrection(
        f"Your result does not match the requested schema: {invalid.why} Answer again with the "
        "complete, corrected result."
    )

"""Fold of the events of turns and core jobs: model outputs, tool calls, reports, proposals. Pure.

A job that ends or needs information leaves a `DueReport`: a report that the edge lane owes the user until a
reply has closed it. See docs/design/lanes.md.
"""

from dataclasses import replace
from typing import TypeVar, assert_never

import orjson

from choir_agent.log.session_state import (
    CallStage,
    CallState,
    DueReport,
    JobState,
    PendingProposal,
    SessionState,
    TurnState,
)
from choir_common.wire.events import (
    ApprovalDecided,
    CoreReported,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    ModelOutput,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject

WorkPayload = ModelOutput | ToolCallRequested | ToolCallCommitted | ToolResultCommitted
W = TypeVar("W", TurnState, JobState)


def apply_work_event(work: W, payload: WorkPayload) -> W:
    """Return the turn or job after one more event of its own."""
    match payload:
        case ModelOutput():
            return _after_output(work, payload)
        case ToolCallRequested():
            return _with_stage(work, payload.call_id, CallStage.REQUESTED)
        case ToolCallCommitted():
            return _with_stage(work, payload.call_id, CallStage.COMMITTED)
        case ToolResultCommitted():
            return _with_stage(work, payload.call_id, CallStage.DONE)
        case _:
            assert_never(payload)


def _after_output(work: W, output: ModelOutput) -> W:
    fresh = replace(
        work,
        steps=work.steps + 1,
        proposed=work.proposed + len(output.tool_calls),
        tokens=work.tokens + output.prompt_tokens + output.completion_tokens,
        output=output,
        calls=tuple(CallState(call) for call in output.tool_calls),
    )
    # A new step means progress: earlier crashes were not caused at this place.
    return replace(fresh, resumes=0) if isinstance(fresh, JobState) else fresh


def _with_stage(work: W, call_id: str, stage: CallStage) -> W:
    calls = tuple(
        CallState(state.call, stage) if state.call.call_id == call_id else state
        for state in work.calls
    )
    return replace(work, calls=calls)


MAX_BRIEF = 6_000
# The number of calls in one model output: only calls of the newest output can run again.
MAX_REMEMBERED_CALLS = 100
PROPOSE_TOOL_PREFIX = "choir.propose."

_OUTCOMES = {
    "completed": "is done",
    "error": "failed",
    "cancelled": "was cancelled",
    "budget_exceeded": "stopped because its budget was used up",
    "crashed": "crashed and could not continue",
}


def apply_core_started(
    state: SessionState, started: CoreStarted, *, edge: str, at: str
) -> SessionState:
    """Return the state with a new open job, which the lane `edge` started at the time `at`.

    It closes the turn of a schedule that only starts it.
    """
    job = JobState(
        turn_id=started.job_id, dm=started.dm, briefing=started, edge=edge, started_at=at
    )
    spent = replace(state.spent, jobs=state.spent.jobs + 1)
    spent = spent.with_unasked(edge, spent.unasked_in(edge) + 1)
    state = replace(state, jobs=(*state.jobs, job), spent=spent)
    turn = state.turn_in(edge)
    if turn is None or started.answers is None or turn.inbox_id != started.answers:
        return state
    turns = tuple(other for other in state.turns if other is not turn)
    return replace(state, turns=turns, turns_done=state.turns_done + 1)


def apply_core_reported(state: SessionState, report: CoreReported) -> SessionState:
    """Return the state after a report of a job; a request for information becomes due to the user."""
    job = next((job for job in state.jobs if job.turn_id == report.job_id), None)
    if job is None:
        return state
    noted = replace(job, reported_by=_newest(job.reported_by, report.call_id))
    if report.kind == "need_info":
        needs = _needs(job, _text(report.body))
        noted = replace(noted, needs=needs)
        brief = f"The core job {report.job_name!r} needs information to continue: {needs}"
        # Do not report a repeated request again.
        if needs != job.needs:
            state = replace(state, due=_due_after_request(state, job, _short(brief)))
    elif report.kind in ("progress", "plan"):
        noted = replace(noted, latest={"kind": report.kind, **report.body})
    return replace(state, jobs=tuple(noted if other is job else other for other in state.jobs))


def _newest(calls: tuple[str, ...], call_id: str) -> tuple[str, ...]:
    return (*calls, call_id)[-MAX_REMEMBERED_CALLS:]


def _needs(job: JobState, text: str) -> str:
    if job.needs is None or text in job.needs:
        return job.needs or text
    return _short(f"{job.needs}\n{text}")


def _due_after_request(state: SessionState, job: JobState, brief: str) -> tuple[DueReport, ...]:
    """Return the due reports after a request for information.

    A request that the user has not seen yet is replaced, so that each job has at most one.
    """
    mark = f"{job.turn_id}:needs:"
    for due in state.unstarted_reports:
        if due.subject.startswith(mark):
            return tuple(
                replace(due, brief=brief) if other is due else other for other in state.due
            )
    return (*state.due, DueReport(f"{mark}{state.rev}", brief, job.dm, job.edge))


def apply_injection(job: JobState, injected: InjectedInstruction, rev: int) -> JobState:
    """Return the job after an injection; only injections from outside the job count against its limit."""
    updated = replace(job, news_rev=rev, needs=None)
    if injected.by != "session":
        by = _newest(job.injected_by, injected.call_id)
        return replace(updated, injections=job.injections + 1, injected_by=by)
    # Only a correction follows a final output; otherwise it is the note that no information came.
    if job.output is None or job.output.tool_calls:
        return updated
    return replace(updated, corrections=job.corrections + 1)


def apply_core_stopped(state: SessionState, stopped: CoreStopped) -> SessionState:
    """Return the state after the end of a job; its outcome becomes due to the user."""
    job = next((job for job in state.jobs if job.turn_id == stopped.job_id), None)
    if job is None:
        return state
    # A later job may use the same lane name, so the lane's skill and summary are removed.
    due = DueReport(stopped.job_id, describe_outcome(stopped), job.dm, job.edge)
    return replace(
        state,
        jobs=tuple(other for other in state.jobs if other is not job),
        skills=tuple(skill for skill in state.skills if skill.lane != job.lane),
        summaries=tuple(summary for summary in state.summaries if summary.lane != job.lane),
        due=(*state.due, due),
    )


def describe_outcome(stopped: CoreStopped) -> str:
    """Return a short text on a job's outcome; it is the report if no model can write one."""
    parts = [f"The core job {stopped.job_name!r} {_OUTCOMES[stopped.outcome]}."]
    if stopped.reason:
        parts.append(stopped.reason)
    if stopped.result is not None:
        parts.append(_text(stopped.result))
    return _short("\n\n".join(parts))


def apply_proposal_result(state: SessionState, result: ToolResultCommitted) -> SessionState:
    """Return the state after a proposal that waits for a human; other results change nothing."""
    approval_id = result.output.get("approval_id")
    work = state.find_work(result.turn_id)
    if (
        work is None
        or not result.tool.startswith(PROPOSE_TOOL_PREFIX)
        or not isinstance(approval_id, str)
    ):
        return state
    what = str(result.output.get("what") or result.tool)
    edge = work.edge if isinstance(work, JobState) else work.lane
    proposal = PendingProposal(approval_id, what, work.dm, edge)
    return replace(state, proposals=(*state.proposals, proposal))


def apply_approval_decided(
    state: SessionState, decided: ApprovalDecided, *, edge: str
) -> SessionState:
    """Return the state after the decision on a proposal; it becomes due to the user in the lane `edge`."""
    due = DueReport(decided.approval_id, _describe_decision(decided), decided.dm, edge)
    others = tuple(p for p in state.proposals if p.approval_id != decided.approval_id)
    return replace(state, proposals=others, due=(*state.due, due))


def _describe_decision(decided: ApprovalDecided) -> str:
    if decided.status == "expired":
        return (
            f"My proposal ({decided.what}) expired: nobody decided in time, so nothing was changed."
        )
    return f"Your decision on my proposal ({decided.what}): {decided.status}."


def _text(body: JsonObject) -> str:
    only = next(iter(body.values())) if len(body) == 1 else None
    return only if isinstance(only, str) else orjson.dumps(body).decode()


def _short(text: str) -> str:
    return text if len(text) <= MAX_BRIEF else text[:MAX_BRIEF] + "…"

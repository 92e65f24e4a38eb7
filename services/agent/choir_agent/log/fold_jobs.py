"""Fold of core job and proposal events, and the fallback text of reports. Pure.

Called by `fold`. A job that ends or needs information leaves a `Due`: a report that the edge lane owes the
user until a reply has closed it. See docs/design/lanes.md.
"""

from dataclasses import replace

import orjson

from choir_agent.log.state import Due, JobState, Proposal, SessionState
from choir_common.wire.events import (
    ApprovalDecided,
    CoreReported,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    ToolResultCommitted,
)
from choir_common.wire.json import JsonObject

MAX_BRIEF = 6_000
# The number of calls in one model output: only calls of the newest output can run again.
KNOWN_CALLS = 100
PROPOSES = "choir.propose."

_OUTCOMES = {
    "completed": "is done",
    "error": "failed",
    "cancelled": "was cancelled",
    "budget_exceeded": "stopped because its budget was used up",
    "crashed": "crashed and could not go on",
}


def after_start(state: SessionState, started: CoreStarted, at: str) -> SessionState:
    """Return the state with a new open job."""
    job = JobState(turn_id=started.job_id, dm=started.dm, briefing=started, started_at=at)
    jobs, unasked = state.spent.jobs + 1, state.spent.jobs_unasked + 1
    spent = replace(state.spent, jobs=jobs, jobs_unasked=unasked)
    return replace(state, jobs=(*state.jobs, job), spent=spent)


def after_report(state: SessionState, report: CoreReported) -> SessionState:
    """Return the state after a report of a job; a request for information becomes due to the user."""
    job = next((job for job in state.jobs if job.turn_id == report.job_id), None)
    if job is None:
        return state
    noted = replace(job, reported_by=_newest(job.reported_by, report.call_id))
    if report.kind == "need_info":
        needs = _needs(job, _text(report.body))
        noted = replace(noted, needs=needs)
        brief = f"The core job {report.job_name!r} needs something to go on: {needs}"
        # Do not report a repeated request again.
        if needs != job.needs:
            state = replace(state, due=_asked(state, job, _short(brief)))
    elif report.kind in ("progress", "plan"):
        noted = replace(noted, latest={"kind": report.kind, **report.body})
    return replace(state, jobs=tuple(noted if other is job else other for other in state.jobs))


def _newest(calls: tuple[str, ...], call_id: str) -> tuple[str, ...]:
    return (*calls, call_id)[-KNOWN_CALLS:]


def _needs(job: JobState, text: str) -> str:
    if job.needs is None or text in job.needs:
        return job.needs or text
    return _short(f"{job.needs}\n{text}")


def _asked(state: SessionState, job: JobState, brief: str) -> tuple[Due, ...]:
    """Return the due reports after a request for information.

    A request that the user has not seen yet is replaced, so that each job has at most one.
    """
    mark = f"{job.turn_id}:needs:"
    for due in state.unbegun:
        if due.subject.startswith(mark):
            return tuple(
                replace(due, brief=brief) if other is due else other for other in state.due
            )
    return (*state.due, Due(f"{mark}{state.rev}", brief, job.dm, job.read_outside))


def after_instruction(job: JobState, injected: InjectedInstruction, rev: int) -> JobState:
    """Return the job after an injection; only injections from outside the job count against its limit."""
    told = replace(job, news_rev=rev, needs=None)
    if injected.by != "session":
        by = _newest(job.injected_by, injected.call_id)
        return replace(told, injections=job.injections + 1, injected_by=by)
    # Only a correction follows a final output; otherwise it is the note that no information came.
    if job.output is None or job.output.tool_calls:
        return told
    return replace(told, corrections=job.corrections + 1)


def after_stop(state: SessionState, stopped: CoreStopped) -> SessionState:
    """Return the state after the end of a job; its outcome becomes due to the user."""
    job = next((job for job in state.jobs if job.turn_id == stopped.job_id), None)
    if job is None:
        return state
    # A later job may use the same lane name, so the lane's skill and summary are removed.
    due = Due(stopped.job_id, outcome_in_words(stopped), job.dm, job.read_outside)
    return replace(
        state,
        jobs=tuple(other for other in state.jobs if other is not job),
        skills=tuple(skill for skill in state.skills if skill.lane != job.lane),
        summaries=tuple(summary for summary in state.summaries if summary.lane != job.lane),
        due=(*state.due, due),
    )


def outcome_in_words(stopped: CoreStopped) -> str:
    """Return a short text on a job's outcome; it is the report if no model can write one."""
    parts = [f"The core job {stopped.job_name!r} {_OUTCOMES[stopped.outcome]}."]
    if stopped.reason:
        parts.append(stopped.reason)
    if stopped.result is not None:
        parts.append(_text(stopped.result))
    return _short("\n\n".join(parts))


def after_proposal(state: SessionState, result: ToolResultCommitted) -> SessionState:
    """Return the state after a proposal that waits for a human; other results change nothing."""
    approval_id = result.output.get("approval_id")
    work = state.work(result.turn_id)
    if work is None or not result.tool.startswith(PROPOSES) or not isinstance(approval_id, str):
        return state
    what = str(result.output.get("what") or result.tool)
    proposal = Proposal(approval_id, what, work.dm)
    return replace(state, proposals=(*state.proposals, proposal))


def after_decision(state: SessionState, decided: ApprovalDecided) -> SessionState:
    """Return the state after the decision on a proposal; the decision becomes due to the user."""
    due = Due(decided.approval_id, _decision_in_words(decided), decided.dm)
    others = tuple(p for p in state.proposals if p.approval_id != decided.approval_id)
    return replace(state, proposals=others, due=(*state.due, due))


def _decision_in_words(decided: ApprovalDecided) -> str:
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

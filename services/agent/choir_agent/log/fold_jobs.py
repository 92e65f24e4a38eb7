"""Step a session by what happens to its core jobs, and put into words what is to be reported: pure.

Called by `fold`. A job that ends, or needs something, leaves a `Due`: the edge lane owes the user a report
until a reply has closed it (spec 7.1).
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
# as many as one model output can hold: only the calls of the newest can run again
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
    """Open a job."""
    job = JobState(turn_id=started.job_id, dm=started.dm, briefing=started, started_at=at)
    jobs, unasked = state.spent.jobs + 1, state.spent.jobs_unasked + 1
    spent = replace(state.spent, jobs=jobs, jobs_unasked=unasked)
    return replace(state, jobs=(*state.jobs, job), spent=spent)


def after_report(state: SessionState, report: CoreReported) -> SessionState:
    """Note what a job says of itself; what it needs is to be told to the user."""
    job = next((job for job in state.jobs if job.turn_id == report.job_id), None)
    if job is None:
        return state
    noted = replace(job, reported_by=_newest(job.reported_by, report.call_id))
    if report.kind == "need_info":
        needs = _needs(job, _text(report.body))
        noted = replace(noted, needs=needs)
        brief = f"The core job {report.job_name!r} needs something to go on: {needs}"
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
    """Return what is due when a job asks: once, as long as the user has not been told."""
    mark = f"{job.turn_id}:needs:"
    for due in state.unbegun:
        if due.subject.startswith(mark):
            return tuple(
                replace(due, brief=brief) if other is due else other for other in state.due
            )
    return (*state.due, Due(f"{mark}{state.rev}", brief, job.dm, job.read_outside))


def after_instruction(job: JobState, injected: InjectedInstruction, rev: int) -> JobState:
    """Give a job something new to read; the runtime's own words are no injection of the edge's."""
    told = replace(job, news_rev=rev, needs=None)
    if injected.by != "session":
        by = _newest(job.injected_by, injected.call_id)
        return replace(told, injections=job.injections + 1, injected_by=by)
    if job.output is None or job.output.tool_calls:
        return told
    return replace(told, corrections=job.corrections + 1)


def after_stop(state: SessionState, stopped: CoreStopped) -> SessionState:
    """Close a job; its outcome is to be told to the user."""
    job = next((job for job in state.jobs if job.turn_id == stopped.job_id), None)
    if job is None:
        return state
    due = Due(stopped.job_id, outcome_in_words(stopped), job.dm, job.read_outside)
    return replace(
        state,
        jobs=tuple(other for other in state.jobs if other is not job),
        skills=tuple(skill for skill in state.skills if skill.lane != job.lane),
        summaries=tuple(summary for summary in state.summaries if summary.lane != job.lane),
        due=(*state.due, due),
    )


def outcome_in_words(stopped: CoreStopped) -> str:
    """Return what became of a job, in a few words: the report, should no model phrase it better."""
    parts = [f"The core job {stopped.job_name!r} {_OUTCOMES[stopped.outcome]}."]
    if stopped.reason:
        parts.append(stopped.reason)
    if stopped.result is not None:
        parts.append(_text(stopped.result))
    return _short("\n\n".join(parts))


def after_proposal(state: SessionState, result: ToolResultCommitted) -> SessionState:
    """Remember a proposal that waits for a human (spec 8.10)."""
    approval_id = result.output.get("approval_id")
    work = state.work(result.turn_id)
    if work is None or not result.tool.startswith(PROPOSES) or not isinstance(approval_id, str):
        return state
    what = str(result.output.get("what") or result.tool)
    proposal = Proposal(approval_id, what, work.dm)
    return replace(state, proposals=(*state.proposals, proposal))


def after_decision(state: SessionState, decided: ApprovalDecided) -> SessionState:
    """Close a proposal; the decision is to be told to the user."""
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

"""Texts for users about the effects of their commands. Pure functions."""

from collections.abc import Sequence
from typing import assert_never

from choir_common.lanes import CORE_LANE_PREFIX, EDGE_LANE, is_core, is_edge
from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import (
    ApprovalResolvedSignal,
    CancelSignal,
    CompactSignal,
    ConfigChangedSignal,
    InjectSignal,
    ShutdownSignal,
    SignalBody,
    UserMessageSignal,
)


def format_signal_effect(body: SignalBody, agent_id: str, status: str) -> str:
    """Return a sentence about the effect of a signal that was just queued."""
    effect = _effect(body, agent_id)
    if status == "crashed":
        return f"{agent_id} has crashed and is being started again. Then: {effect}"
    return effect


def _effect(body: SignalBody, agent_id: str) -> str:
    match body:
        case InjectSignal():
            return f"{agent_id} reads it at its next step."
        case CancelSignal(job=None):
            return f"{agent_id} stops its current work for you; its jobs continue."
        case CancelSignal(job=job):
            return f"The job {job} of {agent_id} ends."
        case CompactSignal(lane=lane):
            where = f"lane {lane}" if lane and not is_edge(lane) else "conversation"
            return f"{agent_id} summarizes the older part of its {where} in the background."
        case UserMessageSignal() | ConfigChangedSignal() | ApprovalResolvedSignal():
            return f"{agent_id} is notified."
        case ShutdownSignal():
            return f"{agent_id} stops at its next safe point."
        case _:
            assert_never(body)


def format_unknown_job(agent_id: str, name: str, open_jobs: Sequence[str]) -> str:
    """Return the text for an unknown core job, with the names of the running ones."""
    if not open_jobs:
        return f"{agent_id} has no job {name[:64]!r}: it runs no jobs now. Nothing was done."
    names = ", ".join(open_jobs)
    return f"{agent_id} has no job {name[:64]!r}. Its jobs are: {names}. Nothing was done."


def format_greeting(agent_id: str | None, status: str | None, memory: str = "") -> str:
    """Return the greeting for a user who opens the conversation, with the name of its agent.

    `memory` is a sentence about how the conversation uses memory.
    """
    commands = f"/help lists what else you can do here. {memory}".rstrip()
    if agent_id is None:
        return (
            "Hello. No agent is bound to this conversation yet. What you write is kept for the first one. "
            f"{commands}"
        )
    if status is None or status == "stopping":
        return (
            f"Hello. This is {agent_id}, which is not running now. What you write is kept and answered "
            f"once it is started (choirctl agent start {agent_id}). {commands}"
        )
    return f"Hello. This is {agent_id}. Write what you want, and it answers here. {commands}"


def format_no_agent(agent_id: str | None, status: str | None) -> str:
    """Return the text for a command that no running agent receives."""
    if agent_id is not None and status == "stopping":
        return f"{agent_id} is stopping and accepts nothing new. Nothing was done."
    return "No agent is running in this conversation, so nothing was done."


def format_status(
    agent_id: str, reports: Sequence[StatusReport], edge_lane: str = EDGE_LANE
) -> str:
    """Return a summary of what an agent is doing in a conversation, and of its core jobs."""
    edge = next((report for report in reports if report.lane == edge_lane), None)
    jobs = [report for report in reports if is_core(report.lane)]
    first = f"{agent_id}: {_doing(edge)}" if edge else f"{agent_id} has not reported its status."
    if not jobs:
        return f"{first}\nNo jobs."
    return "\n".join(
        [first, *(f"- {job.lane.removeprefix(CORE_LANE_PREFIX)}: {_doing(job)}" for job in jobs)]
    )


def format_pending(count: int) -> str:
    """Return how many requests of an agent a person has to decide on."""
    requests = "1 request waits" if count == 1 else f"{count} requests wait"
    return f"{requests} for your decision: /approvals."


def _doing(report: StatusReport) -> str:
    return ", ".join(part for part in (report.state_label, report.skill, report.step) if part)

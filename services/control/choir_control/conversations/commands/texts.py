"""Texts for users about the effects of their commands. Pure functions."""

from collections.abc import Sequence
from typing import assert_never

from choir_common.i18n import _, join, ngettext
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
        return _("{agent} has crashed and is being started again. Then: {effect}").format(
            agent=agent_id, effect=effect
        )
    return effect


def _effect(body: SignalBody, agent_id: str) -> str:
    match body:
        case InjectSignal():
            return _("{agent} reads it at its next step.").format(agent=agent_id)
        case CancelSignal(job=None):
            return _("{agent} stops its current work for you; its jobs continue.").format(
                agent=agent_id
            )
        case CancelSignal(job=job):
            return _("The job {job} of {agent} ends.").format(job=job, agent=agent_id)
        case CompactSignal(lane=lane):
            if lane and not is_edge(lane):
                return _(
                    "{agent} summarizes the older part of its lane {lane} in the background."
                ).format(agent=agent_id, lane=lane)
            return _(
                "{agent} summarizes the older part of its conversation in the background."
            ).format(agent=agent_id)
        case UserMessageSignal() | ConfigChangedSignal() | ApprovalResolvedSignal():
            return _("{agent} is notified.").format(agent=agent_id)
        case ShutdownSignal():
            return _("{agent} stops at its next safe point.").format(agent=agent_id)
        case _:
            assert_never(body)


def format_unknown_job(agent_id: str, name: str, open_jobs: Sequence[str]) -> str:
    """Return the text for an unknown core job, with the names of the running ones."""
    if not open_jobs:
        return _("{agent} has no job {name!r}: it runs no jobs now. Nothing was done.").format(
            agent=agent_id, name=name[:64]
        )
    names = ", ".join(open_jobs)
    return _("{agent} has no job {name!r}. Its jobs are: {names}. Nothing was done.").format(
        agent=agent_id, name=name[:64], names=names
    )


def format_greeting(agent_id: str | None, status: str | None, memory: str = "") -> str:
    """Return the greeting for a user who opens the conversation, with the name of its agent.

    `memory` is a sentence about how the conversation uses memory.
    """
    if agent_id is None:
        first = _(
            "Hello. No agent is bound to this conversation yet. What you write is kept for the first one."
        )
    elif status is None or status == "stopping":
        first = _(
            "Hello. This is {agent}, which is not running now. What you write is kept and answered once "
            "it is started (choirctl agent start {agent})."
        ).format(agent=agent_id)
    else:
        first = _("Hello. This is {agent}. Write what you want, and it answers here.").format(
            agent=agent_id
        )
    parts = (first, _("/help lists what else you can do here."), memory)
    return join(" ", [part for part in parts if part])


def format_no_agent(agent_id: str | None, status: str | None) -> str:
    """Return the text for a command that no running agent receives."""
    if agent_id is not None and status == "stopping":
        return _("{agent} is stopping and accepts nothing new. Nothing was done.").format(
            agent=agent_id
        )
    return _("No agent is running in this conversation, so nothing was done.")


def format_status(
    agent_id: str, reports: Sequence[StatusReport], edge_lane: str = EDGE_LANE
) -> str:
    """Return a summary of what an agent is doing in a conversation, and of its core jobs."""
    edge = next((report for report in reports if report.lane == edge_lane), None)
    jobs = [report for report in reports if is_core(report.lane)]
    first: str = (
        f"{agent_id}: {_doing(edge)}"
        if edge
        else _("{agent} has not reported its status.").format(agent=agent_id)
    )
    if not jobs:
        return join("\n", (first, _("No jobs.")))
    return join(
        "\n",
        [first, *(f"- {job.lane.removeprefix(CORE_LANE_PREFIX)}: {_doing(job)}" for job in jobs)],
    )


def format_pending(count: int) -> str:
    """Return how many requests of an agent a person has to decide on."""
    return ngettext(
        "{count} request waits for your decision: /approvals.",
        "{count} requests wait for your decision: /approvals.",
        count,
    )


def _doing(report: StatusReport) -> str:
    return join(", ", filter(None, (report.state_label, report.skill, report.step)))

"""Text for people: what a lane does, and what is left of its limits. Pure."""

from collections.abc import Mapping
from datetime import timedelta

from choir_common.i18n import Message, _, join, ngettext

_STATES = {
    "EDGE_IDLE": _("idle"),
    "EDGE_CONTEXT_READY": _("starting"),
    "EDGE_REASONING": _("thinking"),
    "EDGE_WAITING_TOOL": _("waiting for a tool"),
    "EDGE_FINALIZING": _("finishing"),
    "EDGE_TERMINATED": _("ended"),
    "CORE_IDLE": _("idle"),
    "CORE_CREATED": _("starting"),
    "CORE_INITIALIZING": _("starting"),
    "CORE_REASONING": _("thinking"),
    "CORE_WAITING_TOOL": _("waiting for a tool"),
    "CORE_COMPLETED": _("completed"),
    "CORE_TERMINATED": _("ended"),
}
_JOB_REPORTS = {
    "progress": _("progress"),
    "plan": _("plan"),
    "thought_summary": _("thoughts"),
    "need_info": _("a question"),
    "partial_result": _("a partial result"),
}
_JOB_OUTCOMES = {
    "completed": _("completed"),
    "error": _("failed"),
    "cancelled": _("was cancelled"),
    "budget_exceeded": _("ran out of budget"),
    "crashed": _("crashed"),
}


def state_text(state: str) -> str:
    """Return a lane's state for display; a state of a newer version stays as it is."""
    return _STATES.get(state, state)


def report_kind_text(kind: str) -> str:
    """Return what a job's report is, such as `a partial result`."""
    return _JOB_REPORTS.get(kind, kind)


def outcome_text(outcome: str) -> str:
    """Return how a job ended, as the verb of a sentence about it."""
    return _JOB_OUTCOMES.get(outcome, outcome)


def limits_text(remaining: Mapping[str, int]) -> str:
    """Return what is left of a lane's limits, such as `20 steps, 1,000 tokens`; empty if nothing is known."""
    return join(", ", (_limit_text(name, count) for name, count in remaining.items()))


def _limit_text(name: str, count: int) -> str:
    match name:
        case "total_session_tokens":
            return ngettext("{count} token", "{count} tokens", count)
        case "max_tool_calls_per_session" | "per_job_max_tool_calls":
            return ngettext("{count} tool call", "{count} tool calls", count)
        case "max_core_jobs":
            return ngettext("{count} more job", "{count} more jobs", count)
        case "max_steps_per_turn" | "per_job_max_steps":
            return ngettext("{count} step", "{count} steps", count)
        case "max_injections_per_job":
            return ngettext("{count} instruction", "{count} instructions", count)
        case "per_job_wall_time_ms":
            return _wall_time_text(timedelta(milliseconds=count))
        case _:
            return f"{name.replace('_', ' ')} {count:,}"


def _wall_time_text(duration: timedelta) -> Message:
    seconds = int(duration.total_seconds())
    if seconds < 120:
        return ngettext("{count} second", "{count} seconds", seconds)
    return ngettext("{count} minute", "{count} minutes", seconds // 60)

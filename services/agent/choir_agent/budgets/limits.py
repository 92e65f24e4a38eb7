"""Limits and remaining amounts of a session's budgets, from the folded state alone. Pure.

Called by `reserve`, the arbiter's policy and the tool that starts core jobs. Injections never change a
budget; a grant by the user or a configuration change does.
"""

from typing import Literal

from choir_agent.log.state import SessionState
from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetExhausted
from choir_common.wire.json import JsonObject

BudgetName = Literal["total_session_tokens", "max_tool_calls_per_session"]
TOKENS: BudgetName = "total_session_tokens"
CALLS: BudgetName = "max_tool_calls_per_session"


def limit_of(budget: BudgetName, state: SessionState, budgets: Budgets) -> int:
    """Return the limit in force: the configured limit plus the user's grants."""
    if budget == TOKENS:
        return budgets.total_session_tokens + state.spent.granted_tokens
    return budgets.max_tool_calls_per_session + state.spent.granted_tool_calls


def spent_of(budget: BudgetName, state: SessionState) -> int:
    """Return the amount of a budget that the session has used."""
    return state.spent.tokens if budget == TOKENS else state.spent.tool_calls


def left_of(budget: BudgetName, state: SessionState, budgets: Budgets) -> int:
    """Return the remaining amount of a budget; zero if it is overdrawn."""
    return max(0, limit_of(budget, state, budgets) - spent_of(budget, state))


def calls_fault(state: SessionState, budgets: Budgets) -> JsonObject | None:
    """Return the error that refuses one more tool call, or None while the budget allows it.

    Exact only if nothing is awaited between this check and the call's `tool_call_committed`.
    """
    if left_of(CALLS, state, budgets) > 0:
        return None
    return {
        "code": "budget_exhausted",
        "message": "The session's tool calls are used up; only the user can allow more. "
        "Tell the user what you have so far.",
        "limit": limit_of(CALLS, state, budgets),
    }


def jobs_fault(state: SessionState, budgets: Budgets) -> JsonObject | None:
    """Return the error that refuses one more core job, or None while the limits allow it."""
    if state.spent.jobs_unasked >= budgets.max_core_jobs_per_message:
        return {
            "code": "too_many_jobs",
            "message": f"{budgets.max_core_jobs_per_message} core jobs were started since the user's "
            "last message (max_core_jobs_per_message). Tell the user what you have, and ask.",
        }
    if len(state.jobs) < budgets.max_core_jobs:
        return None
    running = ", ".join(job.name for job in state.jobs) or "none"
    return {
        "code": "too_many_jobs",
        "message": f"At most {budgets.max_core_jobs} core jobs run at the same time "
        f"(max_core_jobs); running: {running}. Wait for one to end, or cancel one.",
    }


def exhausted_budget(state: SessionState, budgets: Budgets) -> BudgetName | None:
    """Return the budget that stops the session, or None.

    A budget does not stop the session if its configured limit was raised after it was exhausted.
    """
    if state.exhausted is None:
        return None
    budget: BudgetName = CALLS if state.exhausted == CALLS else TOKENS
    return budget if limit_of(budget, state, budgets) <= state.exhausted_limit else None


def exhausted(
    budget: BudgetName, state: SessionState, budgets: Budgets, dm: str
) -> BudgetExhausted | None:
    """Return the event that records an exhausted budget, or None if the log already has it."""
    if exhausted_budget(state, budgets) == budget:
        return None
    return BudgetExhausted(budget=budget, limit=limit_of(budget, state, budgets), dm=dm)

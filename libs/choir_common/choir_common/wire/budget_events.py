"""Events of budgets and of usage that no other event records. Re-exported by `events`."""

from typing import Literal

from choir_common.wire.model import WireModel
from choir_common.wire.money import ModelUsage, MoneyBudget

SessionBudget = Literal["total_session_tokens", "max_tool_calls_per_session"]
"""The budgets that the session's own log counts."""


class BudgetExhausted(WireModel):
    """A hard limit was reached; the user is asked whether to continue."""

    type: Literal["budget_exhausted"] = "budget_exhausted"
    budget: SessionBudget | MoneyBudget
    limit: int
    """The limit in force; of a budget in money, in micro-dollars."""
    dm: str
    until: str = ""
    """When the budget's period ends, UTC, ISO 8601; empty for a budget without a period."""


class BudgetGranted(WireModel):
    """The user granted more of a session's budget."""

    type: Literal["budget_granted"] = "budget_granted"
    budget: SessionBudget | MoneyBudget
    amount: int
    """The additional amount; of a budget in money, zero: control grants the configured limit again."""
    inbox_id: str
    """The message that granted it."""


class UsageRecorded(WireModel):
    """Usage of a model call that no other event records."""

    type: Literal["usage_recorded"] = "usage_recorded"
    turn_id: str | None
    """The turn or core job that made the call; None for a call of the session itself."""
    purpose: Literal["session_summary", "failed_call", "mcp_sampling"]
    """`failed_call`: a call that gave no usable output although the provider may bill it; `mcp_sampling`: a
    call for an MCP server."""
    origin: str = ""
    """Who asked, if not the agent itself: `mcp.NAME`."""
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    usage: ModelUsage | None = None

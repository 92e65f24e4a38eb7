"""Question to the user about exceeding a budget, and parsing of the reply. Pure.

The question is used by `reserve` and the lanes; the edge lane passes each message that arrives while a
budget is exhausted to `answer_to`.
"""

from dataclasses import dataclass

from choir_agent.budgets.limits import (
    CALLS,
    TOKENS,
    BudgetName,
    exhausted_budget,
    limit_of,
    spent_of,
)
from choir_agent.log.state import SessionState
from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetGranted

COMMAND = "/continue"
YES = frozenset({COMMAND, "continue", "yes", "y", "ok", "okay", "go on", "go ahead", "ja"})
_NAME: dict[BudgetName, str] = {TOKENS: "token budget", CALLS: "budget of tool calls"}
_UNIT: dict[BudgetName, str] = {TOKENS: "tokens", CALLS: "tool calls"}


@dataclass(frozen=True, slots=True)
class Grant:
    """The user's permission to use `amount` more of a budget."""

    budget: BudgetName
    amount: int

    def event(self, inbox_id: str) -> BudgetGranted:
        """Return the event for this grant; it names the message that contained it."""
        return BudgetGranted(budget=self.budget, amount=self.amount, inbox_id=inbox_id)


def question_of(budget: BudgetName, state: SessionState, budgets: Budgets) -> str:
    """Return the text for the user: the amount used, the limit, and how to continue."""
    limit, used = limit_of(budget, state, budgets), spent_of(budget, state)
    left = ", and the next step needs more than is left" if used < limit else ""
    return (
        f"The {_NAME[budget]} of this session is used up: {used:,} of {limit:,} {_UNIT[budget]}{left}. "
        f"Answer {COMMAND} to allow {_more(budget, budgets):,} more, or raise budgets.{budget} in "
        "config.json and apply it; until then I do not call the model."
    )


def answer_to(text: str, state: SessionState, budgets: Budgets) -> Grant | None:
    """Return the grant in a user's message, if a budget is exhausted and the message means yes.

    A grant adds the configured limit again.
    """
    budget = exhausted_budget(state, budgets)
    if budget is None or text.strip().rstrip(".!").lower() not in YES:
        return None
    return Grant(budget, _more(budget, budgets))


def _more(budget: BudgetName, budgets: Budgets) -> int:
    if budget == TOKENS:
        return budgets.total_session_tokens
    return budgets.max_tool_calls_per_session

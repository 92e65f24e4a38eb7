"""Limits and remaining amounts of a session's budgets, and the question to the user about exceeding one.

Injections never change a budget; a grant by the user or a configuration change does. The edge lane
checks each message that arrives while a budget is exhausted for such a grant.

`TokenBudget` tracks calls in flight; everything else is pure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from choir_agent.log.session_state import SessionState, SessionStateSource
from choir_agent.settings import SettingsSource
from choir_common.errors import ChoirError
from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetExhausted, BudgetGranted, SessionBudget
from choir_common.wire.model import JsonObject
from choir_common.wire.money import MoneyBudget

BudgetName = SessionBudget
TOKENS: BudgetName = "total_session_tokens"
CALLS: BudgetName = "max_tool_calls_per_session"


def limit_of(budget: BudgetName, state: SessionState, budgets: Budgets) -> int:
    """Return the limit in force: the configured limit plus the user's grants."""
    if budget == TOKENS:
        return budgets.total_session_tokens + state.spent.granted_tokens
    return budgets.max_tool_calls_per_session + state.spent.granted_tool_calls


def used_of(budget: BudgetName, state: SessionState) -> int:
    """Return the amount of a budget that the session has used."""
    return state.spent.tokens if budget == TOKENS else state.spent.tool_calls


def remaining_of(budget: BudgetName, state: SessionState, budgets: Budgets) -> int:
    """Return the remaining amount of a budget; zero if it is overdrawn."""
    return max(0, limit_of(budget, state, budgets) - used_of(budget, state))


def tool_call_refusal(state: SessionState, budgets: Budgets) -> JsonObject | None:
    """Return the error that refuses one more tool call, or None while the budget allows it.

    Exact only if nothing is awaited between this check and the call's `tool_call_committed`.
    """
    if remaining_of(CALLS, state, budgets) > 0:
        return None
    return {
        "code": "budget_exhausted",
        "message": "The session's tool calls are used up; only the user can allow more. "
        "Tell the user what you have so far.",
        "limit": limit_of(CALLS, state, budgets),
    }


def core_job_refusal(state: SessionState, budgets: Budgets, *, lane: str) -> JsonObject | None:
    """Return the error that refuses one more core job of an edge lane, or None while the limits allow it."""
    if state.spent.unasked_in(lane) >= budgets.max_core_jobs_per_message:
        return {
            "code": "too_many_jobs",
            "message": f"{budgets.max_core_jobs_per_message} core jobs were started since the user's "
            "last message (max_core_jobs_per_message). Report what you have to the user, and ask.",
        }
    if len(state.jobs) < budgets.max_core_jobs:
        return None
    own = [job.name for job in state.jobs_in(lane)]
    others = ["jobs of other conversations"] if len(own) < len(state.jobs) else []
    running = ", ".join((*own, *others)) or "none"
    return {
        "code": "too_many_jobs",
        "message": f"At most {budgets.max_core_jobs} core jobs run at the same time "
        f"(max_core_jobs); running: {running}. Wait for one to end, or cancel one.",
    }


def exhausted_budget(state: SessionState, budgets: Budgets) -> BudgetName | None:
    """Return the budget that stops the session, or None.

    A budget does not stop the session if its configured limit was raised after it was exhausted. Budgets in
    money are checked by control before each call.
    """
    budget = next((name for name in (TOKENS, CALLS) if name == state.exhausted), None)
    if budget is None:
        return None
    return budget if limit_of(budget, state, budgets) <= state.exhausted_limit else None


def exhausted_event(
    budget: BudgetName, state: SessionState, budgets: Budgets, *, dm: str, lane: str
) -> BudgetExhausted | None:
    """Return the event that records an exhausted budget and that the user of a lane is asked for more.

    Returns None if the log already has both.
    """
    if exhausted_budget(state, budgets) == budget and state.edge_of(lane) in state.asked_in:
        return None
    return BudgetExhausted(budget=budget, limit=limit_of(budget, state, budgets), dm=dm)


COMMAND = "/continue"
AFFIRMATIVE_REPLIES = frozenset(
    {COMMAND, "continue", "yes", "y", "ok", "okay", "go on", "go ahead", "ja"}
)
_NAME: dict[BudgetName, str] = {TOKENS: "token budget", CALLS: "budget of tool calls"}
_UNIT: dict[BudgetName, str] = {TOKENS: "tokens", CALLS: "tool calls"}


@dataclass(frozen=True, slots=True)
class BudgetGrant:
    """The user's permission to use `amount` more of a budget."""

    budget: BudgetName | MoneyBudget
    amount: int

    def event(self, inbox_id: str) -> BudgetGranted:
        """Return the event for this grant; it names the message that contained it."""
        return BudgetGranted(budget=self.budget, amount=self.amount, inbox_id=inbox_id)


def budget_question(budget: BudgetName, state: SessionState, budgets: Budgets) -> str:
    """Return the text for the user: the amount used, the limit, and how to continue."""
    limit, used = limit_of(budget, state, budgets), used_of(budget, state)
    remainder = ", and the next step needs more than is left" if used < limit else ""
    return (
        f"The {_NAME[budget]} of this session is used up: {used:,} of {limit:,} {_UNIT[budget]}{remainder}. "
        f"Answer {COMMAND} to allow {_more(budget, budgets):,} more, or raise budgets.{budget} in "
        "config.json and apply it; until then I do not call the model."
    )


def parse_grant(
    text: str, state: SessionState, budgets: Budgets, *, lane: str
) -> BudgetGrant | None:
    """Return the grant in a user's message, if a budget is exhausted and the message means yes.

    Only a user who was asked, in the conversation of this edge lane, can grant more. A grant adds the
    configured limit again.
    """
    budget = exhausted_budget(state, budgets)
    if budget is None or lane not in state.asked_in or not is_affirmative(text):
        return None
    return BudgetGrant(budget, _more(budget, budgets))


def is_affirmative(text: str) -> bool:
    """Return whether a user's message means yes."""
    return _plain(text) in AFFIRMATIVE_REPLIES


def is_command(text: str) -> bool:
    """Return whether a user's message is the command that extends a budget."""
    return _plain(text).lstrip("/") == COMMAND.lstrip("/")


def _plain(text: str) -> str:
    return text.strip().rstrip(".!").lower()


def _more(budget: BudgetName, budgets: Budgets) -> int:
    if budget == TOKENS:
        return budgets.total_session_tokens
    return budgets.max_tool_calls_per_session


class BudgetExceeded(ChoirError):
    """A budget is exhausted; the message shows the user what was used and how to continue."""

    code, status = "budget_exhausted", 429

    def __init__(self, budget: BudgetName | MoneyBudget, message: str) -> None:
        super().__init__(message)
        self.budget = budget

    def event(
        self, state: SessionState, budgets: Budgets, *, dm: str, lane: str
    ) -> BudgetExhausted | None:
        """Return the event that records this in a lane, or None if the log already has it."""
        return exhausted_event(TOKENS, state, budgets, dm=dm, lane=lane)


class TokenBudget:
    """Reservation of tokens before every model call: of a turn, a core job or a compaction.

    The tokens spent are in the folded state; this class tracks calls in flight only, so that concurrent calls
    cannot exceed the budget together.
    """

    def __init__(self, session: SessionStateSource, settings: SettingsSource) -> None:
        self._session = session
        self._settings = settings
        self._reserved = 0

    @property
    def reserved(self) -> int:
        """Tokens reserved for calls in flight."""
        return self._reserved

    @contextmanager
    def reserve(self, estimate: int) -> Iterator[None]:
        """Reserve `estimate` tokens for the duration of the context.

        Commit the event with the real usage inside the context: reserved tokens then become spent tokens
        without a gap. Raises BudgetExceeded if the budget does not allow the reservation.
        """
        state, budgets = self._session.state, self._settings.current().settings.budgets
        if state.spent.tokens + self._reserved + estimate > limit_of(TOKENS, state, budgets):
            raise BudgetExceeded(TOKENS, budget_question(TOKENS, state, budgets))
        self._reserved += estimate
        try:
            yield
        finally:
            self._reserved -= estimate

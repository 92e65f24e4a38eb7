"""Reservation of tokens before every model call: of a turn, a core job or a compaction.

The tokens spent are in the folded state; this module tracks calls in flight only, so that concurrent calls
cannot exceed the budget together.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from choir_agent.budgets.limits import TOKENS, BudgetName, budget_question, limit_of
from choir_agent.log.session_state import SessionStateSource
from choir_agent.settings import SettingsSource
from choir_common.errors import ChoirError


class TokenBudgetExceeded(ChoirError):
    """A session's budget is exhausted; the message shows the user what was used and how to continue."""

    code, status = "budget_exhausted", 429

    def __init__(self, budget: BudgetName, message: str) -> None:
        super().__init__(message)
        self.budget = budget


class TokenBudget:
    """Token reservations of one session."""

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
        without a gap. Raises TokenBudgetExceeded if the budget does not allow the reservation.
        """
        state, budgets = self._session.state, self._settings.current().settings.budgets
        if state.spent.tokens + self._reserved + estimate > limit_of(TOKENS, state, budgets):
            raise TokenBudgetExceeded(TOKENS, budget_question(TOKENS, state, budgets))
        self._reserved += estimate
        try:
            yield
        finally:
            self._reserved -= estimate

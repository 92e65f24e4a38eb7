"""Set aside tokens for a model call before it is made (spec 7.6).

Called around every model call: of a turn, a core job, a compaction. What was spent is the log's state; here
stand only the calls in flight, so that several at once cannot overshoot together.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from choir_agent.budgets.limits import TOKENS, BudgetName, limit_of
from choir_agent.budgets.question import question_of
from choir_agent.log.state import SessionState
from choir_common.errors import ChoirError
from choir_common.wire.config import Budgets


class BudgetSpent(ChoirError):
    """A session's budget is used up; the message tells the user what was used and how to go on."""

    code, status = "budget_exhausted", 429

    def __init__(self, budget: BudgetName, message: str) -> None:
        super().__init__(message)
        self.budget = budget


class Purse:
    """The tokens of one session."""

    def __init__(self, state: Callable[[], SessionState], budgets: Callable[[], Budgets]) -> None:
        self._state = state
        self._budgets = budgets
        self._reserved = 0

    @property
    def reserved(self) -> int:
        """Tokens set aside for calls in flight."""
        return self._reserved

    @contextmanager
    def reserve(self, estimate: int) -> Iterator[None]:
        """Set `estimate` tokens aside while the block runs.

        Commit the event that holds the real usage inside the block: then what was set aside becomes spent
        with no moment in between. Raises BudgetSpent when there is no room.
        """
        state, budgets = self._state(), self._budgets()
        if state.spent.tokens + self._reserved + estimate > limit_of(TOKENS, state, budgets):
            raise BudgetSpent(TOKENS, question_of(TOKENS, state, budgets))
        self._reserved += estimate
        try:
            yield
        finally:
            self._reserved -= estimate

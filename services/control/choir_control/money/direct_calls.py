"""Money of calls that a client of the OpenAI-compatible API makes without an agent.

They are charged to no agent, and held to the budgets of all agents together.
"""

from choir_common.errors import ChoirError
from choir_common.ids import new_id
from choir_common.wire.money import ReserveMoney
from choir_control.money.budgets import MoneyBudgetService, Spender

_CLIENT = Spender(None, None, None, None, is_direct=True)


class BudgetExceeded(ChoirError):
    """A budget in money does not allow the call."""

    code, status = "insufficient_quota", 429


class DirectCallBudgets:
    """Reservations for clients' calls."""

    def __init__(self, budgets: MoneyBudgetService) -> None:
        self._budgets = budgets

    async def reserve(self, call: ReserveMoney) -> str:
        """Reserve the most that a call can cost; return the reservation, empty without a budget.

        Raises BudgetExceeded, also if the price is unknown.
        """
        reserved = await self._budgets.reserve(_CLIENT, new_id("use"), call)
        if reserved.budget is not None:
            raise BudgetExceeded(reserved.text)
        return reserved.reservation

    async def release(self, reservation: str) -> None:
        """Give back the reservation of a call that was not billed, or that is charged by its report."""
        if reservation:
            await self._budgets.release(_CLIENT, reservation)

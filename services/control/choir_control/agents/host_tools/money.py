"""The tools that reserve and release money for an agent's model calls; not offered to models."""

from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.money import ReleaseMoney, ReserveMoney, SpentToday
from choir_common.wire.rpc import Ack
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.log.leases.store import Lease
from choir_control.money.budgets import MoneyBudgetService, Spender
from choir_control.money.costs import CostService


class MoneyTools:
    """Handlers of the tools; agent, session and conversation always come from the lease."""

    def __init__(self, budgets: MoneyBudgetService, costs: CostService) -> None:
        self._budgets = budgets
        self._costs = costs

    async def spent(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return what the agent has spent today."""
        line = await self._costs.spent_today(lease.agent_id)
        return SpentToday(usd=line.cost_usd)

    async def reserve(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Reserve the money for one model call, once per `call_id`."""
        request = parse_tool_input(ReserveMoney, arguments)
        # Another session cannot repeat it.
        reservation = f"{lease.session_id}:{call_id}"
        return await self._budgets.reserve(_spender(lease), reservation, request)

    async def release(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Give back a reservation of this session."""
        request = parse_tool_input(ReleaseMoney, arguments)
        await self._budgets.release(_spender(lease), request.reservation)
        return Ack()


def _spender(lease: Lease) -> Spender:
    return Spender(lease.session_id, lease.epoch, lease.agent_id, lease.dm)

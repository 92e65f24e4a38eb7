"""Budgets in money for the calls of memory's model.

Memory has no session and no user: a call that a budget does not allow waits, and the person of the agent's
conversation is told once for each budget and period.
"""

from typing import Protocol

import structlog

from choir_common.wire.messages import Empty
from choir_common.wire.money import (
    MoneyBudget,
    MoneyReserved,
    ReleaseForMemory,
    ReserveForMemory,
)
from choir_control.configuration.current import ConfigService
from choir_control.money.budgets import MoneyAnswer, MoneyBudgetService, Spender
from choir_control.money.reservation_store import BudgetNotice, ReservationStore

log = structlog.get_logger("choir.money")


class ConversationRescanner(Protocol):
    """Outbox worker, as seen by code that adds notices."""

    def rescan(self, dm: str) -> None:
        """Read the undelivered rows of a conversation (DM) and deliver them."""


class MemoryBudgetService:
    """Reservations of money for memory."""

    def __init__(
        self,
        *,
        budgets: MoneyBudgetService,
        store: ReservationStore,
        configuration: ConfigService,
        outbox: ConversationRescanner,
    ) -> None:
        self._budgets = budgets
        self._store = store
        self._configuration = configuration
        self._outbox = outbox

    async def reserve(self, request: ReserveForMemory) -> MoneyReserved:
        """Reserve the most that a call can cost, or return the budget that does not allow it."""
        spender = Spender(None, None, request.agent_id, None)
        name = request.call.name or self._configuration.current.config.memory.model or ""
        call = request.call.model_copy(update={"kind": "memory", "name": name})
        answer = await self._budgets.reserve(spender, request.reservation, call)
        if answer.budget is not None:
            log.info("memory's call refused", agent=request.agent_id, budget=answer.budget)
            await self._tell(request.agent_id, answer.budget, answer)
        return answer

    async def release(self, request: ReleaseForMemory) -> Empty:
        """Give back the reservation of a call that was not billed."""
        await self._budgets.release(Spender(None, None, None, None), request.reservation)
        return Empty()

    async def _tell(
        self, agent_id: str | None, budget: MoneyBudget, refusal: MoneyReserved
    ) -> None:
        config = self._configuration.current.config
        agent = config.agents.get(agent_id or "")
        conversation = None if agent is None else config.dms.get(agent.defaults.dm)
        if agent_id is None or agent is None or conversation is None:
            return
        text = refusal.notice if isinstance(refusal, MoneyAnswer) else refusal.text
        notice = BudgetNotice(
            budget=budget,
            period=f"{refusal.until} {refusal.limit_micro_usd}",
            dm=agent.defaults.dm,
            gateway=conversation.gateway,
            text=self._configuration.translate(agent.defaults.dm, text),
        )
        if await self._store.notify_once(agent_id, notice):
            self._outbox.rescan(notice.dm)

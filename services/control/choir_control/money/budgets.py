"""Budgets in money: reserve before each model call, settle with its event, refuse at the limit.

All amounts and reservations are in Postgres, so that limits hold across restarts, agents and lanes. Calls in
flight can exceed a limit only by what they cost above their reservations.
"""

from dataclasses import dataclass
from datetime import UTC
from decimal import ROUND_DOWN, Decimal
from zoneinfo import ZoneInfo

from choir_common.clock import Clock
from choir_common.wire.model import format_log_time
from choir_common.wire.money import (
    MICRO_USD,
    MoneyBudget,
    MoneyReserved,
    ReleaseMoney,
    ReserveMoney,
)
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.prices import prices_of
from choir_control.money.budget_texts import budget_question, may_be_granted, unknown_price_text
from choir_control.money.charges import TOTALS, zone_of
from choir_control.money.periods import Period, period_of
from choir_control.money.pricing import highest_cost
from choir_control.money.reservation_store import (
    BudgetScope,
    NewReservation,
    ReservationStore,
    ReservationTransaction,
)

LOST_CALLS_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Spender:
    """The session that makes a call."""

    session_id: str
    epoch: int
    agent_id: str
    dm: str


@dataclass(frozen=True, slots=True)
class _Limit:
    budget: MoneyBudget
    amount: Decimal
    zone: str
    period: Period | None


class MoneyBudgetService:
    """Reservations of money for model calls."""

    def __init__(self, store: ReservationStore, configuration: ConfigService, clock: Clock) -> None:
        self._store = store
        self._configuration = configuration
        self._clock = clock

    async def reserve(self, spender: Spender, call_id: str, request: ReserveMoney) -> MoneyReserved:
        """Reserve the most that a call can cost, or return the budget that does not allow it."""
        snapshot = self._configuration.current
        limits = self._limits(snapshot, spender.agent_id, request.job_id)
        amount = _estimate(snapshot, request)
        if not limits:
            return MoneyReserved()
        if amount is None:
            model = snapshot.config.models.get(request.name)
            text = unknown_price_text(
                limits[0].budget, request.name, model.model if model else request.name
            )
            return MoneyReserved(budget=limits[0].budget, text=text)
        reservation = f"{spender.session_id}:{call_id}"
        async with self._store.transaction() as transaction:
            if not await transaction.exists(reservation):
                for limit in limits:
                    refusal = await self._check(
                        transaction, snapshot, spender, request, limit, amount
                    )
                    if refusal is not None:
                        return refusal
                await transaction.insert(self._row(snapshot, spender, request, reservation, amount))
        return MoneyReserved(reservation=reservation)

    async def release(self, spender: Spender, request: ReleaseMoney) -> None:
        """Give back the reservation of a call that was not billed."""
        await self._store.release(spender.session_id, request.reservation)

    async def count_lost(self) -> None:
        """Charge the reservations of calls whose agent died, at the reserved amounts."""
        await self._store.count_lost()

    def _limits(
        self, snapshot: ConfigSnapshot, agent_id: str, job_id: str | None
    ) -> tuple[_Limit, ...]:
        now, own_zone = self._clock.now(), zone_of(snapshot, agent_id)
        limits = []
        for budget, amount in snapshot.budgets_for(agent_id).money.items():
            if budget == "usd_per_job" and job_id is None:
                continue
            zone = zone_of(snapshot, None) if budget in TOTALS else own_zone
            limits.append(_Limit(budget, amount, zone, period_of(budget, now, zone)))
        return tuple(limits)

    async def _check(
        self,
        transaction: ReservationTransaction,
        snapshot: ConfigSnapshot,
        spender: Spender,
        request: ReserveMoney,
        limit: _Limit,
        amount: Decimal,
    ) -> MoneyReserved | None:
        """Return the refusal, or None if the budget allows the amount."""
        scope = BudgetScope(
            limit.budget, spender.session_id, spender.agent_id, request.job_id, limit.period
        )
        use = await transaction.read_use(scope)
        used, total = use.spent + use.reserved, limit.amount + use.granted
        if used + amount <= total:
            return None
        conversation = snapshot.config.dms.get(spender.dm)
        is_admin = conversation is not None and conversation.admin
        end = limit.period.end if limit.period else None
        return MoneyReserved(
            budget=limit.budget,
            limit_micro_usd=int((total * MICRO_USD).to_integral_value(ROUND_DOWN)),
            until=format_log_time(end.astimezone(UTC)) if end else "",
            text=budget_question(
                limit.budget,
                used=used,
                needed=amount,
                limit=total,
                configured=limit.amount,
                end=end,
                zone=limit.zone,
                may_grant=may_be_granted(limit.budget, is_admin=is_admin),
            ),
        )

    def _row(
        self,
        snapshot: ConfigSnapshot,
        spender: Spender,
        request: ReserveMoney,
        reservation: str,
        amount: Decimal,
    ) -> NewReservation:
        zone = ZoneInfo(zone_of(snapshot, spender.agent_id))
        return NewReservation(
            reservation=reservation,
            session_id=spender.session_id,
            epoch=spender.epoch,
            agent_id=spender.agent_id,
            job_id=request.job_id,
            name=request.name,
            model=snapshot.config.models[request.name].model,
            day=self._clock.now().astimezone(zone).date(),
            amount=amount,
            hold_s=request.hold_s,
        )


def _estimate(snapshot: ConfigSnapshot, request: ReserveMoney) -> Decimal | None:
    """Return the most that a call can cost, or None if its price is unknown."""
    model = snapshot.config.models.get(request.name)
    source = None if model is None else prices_of(model)
    if source is None:
        return None
    return highest_cost(source.prices, request.prompt_tokens, request.completion_tokens)

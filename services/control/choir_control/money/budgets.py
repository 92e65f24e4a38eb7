"""Budgets in money: reserve before each call of a provider, settle with its event, refuse at the limit.

All amounts and reservations are in Postgres, so that limits hold across restarts, agents and lanes. Calls in
flight can exceed a limit only by what they cost above their reservations.
"""

from dataclasses import dataclass
from datetime import UTC
from decimal import ROUND_DOWN, Decimal
from zoneinfo import ZoneInfo

from pydantic import PrivateAttr

from choir_common.clock import Clock
from choir_common.wire.config import Budgets
from choir_common.wire.model import format_log_time
from choir_common.wire.money import (
    MICRO_USD,
    MoneyBudget,
    MoneyReserved,
    ReserveMoney,
)
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.prices import PricedEntry, provider_model
from choir_control.money.budget_texts import (
    budget_question,
    direct_call_notice,
    may_be_granted,
    memory_notice,
    unknown_price_text,
)
from choir_control.money.call_costs import entry_of, highest_call_cost
from choir_control.money.charges import TOTALS, zone_of
from choir_control.money.periods import Period, period_of
from choir_control.money.reservation_store import (
    BudgetScope,
    PlannedCharge,
    ReservationStore,
    ReservationTransaction,
)

LOST_CALLS_INTERVAL_S = 60.0
_OF_SESSIONS: frozenset[MoneyBudget] = frozenset({"usd_per_job", "usd_per_session"})
_SECTIONS = {"speech": "tts", "transcription": "transcription", "embedding": "embedding"}


@dataclass(frozen=True, slots=True)
class Spender:
    """The session that makes a call; calls of memory, and those without an agent, have none."""

    session_id: str | None
    epoch: int | None
    agent_id: str | None
    """None: a call of memory for several agents, or one without an agent."""
    dm: str | None
    is_direct: bool = False
    """Whether an operator tests a model, or a client of the API uses one without an agent."""


@dataclass(frozen=True, slots=True)
class _Limit:
    budget: MoneyBudget
    amount: Decimal
    zone: str
    period: Period | None


@dataclass(frozen=True, slots=True)
class _LimitUse:
    """What a budget has been used for, and its limit in force, in US dollars."""

    used: Decimal
    total: Decimal

    @property
    def left(self) -> Decimal:
        return self.total - self.used


class MoneyAnswer(MoneyReserved):
    """A refusal, which is English on the wire, with its text as a message for a notice."""

    _notice: str = PrivateAttr(default="")

    @property
    def notice(self) -> str:
        """Return the text as a message."""
        return self._notice or self.text

    def set_notice(self, text: str) -> None:
        """Set the message of `text`."""
        self._notice = text


class MoneyBudgetService:
    """Reservations of money for calls of providers."""

    def __init__(self, store: ReservationStore, configuration: ConfigService, clock: Clock) -> None:
        self._store = store
        self._configuration = configuration
        self._clock = clock

    async def reserve(
        self, spender: Spender, reservation: str, request: ReserveMoney
    ) -> MoneyReserved:
        """Reserve the most that a call can cost, or return the budget that does not allow it.

        If the money that is left does not pay for the longest completion, it is reserved for a shorter one.
        `reservation` is the idempotency key.
        """
        snapshot = self._configuration.current
        limits = self._limits(snapshot, spender, request.job_id)
        if not limits:
            return MoneyReserved()
        entry = entry_of(snapshot.config, request)
        cost = None if entry is None else highest_call_cost(entry, request)
        if entry is None or cost is None:
            section = _SECTIONS.get(request.kind, "models")
            path = f"{section}.{request.name}" if request.name else section
            model = request.name if entry is None else provider_model(entry)
            text = unknown_price_text(limits[0].budget, path, model)
            return MoneyReserved(budget=limits[0].budget, text=text)
        async with self._store.transaction() as transaction:
            earlier_amount = await transaction.amount_of(reservation)
            tokens = request.completion_tokens
            if earlier_amount is not None:
                tokens = cost.longest_completion(earlier_amount, tokens)
            else:
                for limit in limits:
                    use = await self._read_use(transaction, spender, request, limit)
                    tokens = cost.longest_completion(use.left, tokens)
                    if tokens < cost.least_completion:
                        return _refusal(
                            snapshot, spender, limit, use=use, needed=cost.of(cost.least_completion)
                        )
                row = self._row(snapshot, spender, request, entry)
                await transaction.insert(reservation, row, cost.of(tokens))
        return MoneyReserved(
            reservation=reservation, completion_tokens=tokens if cost.per_token else None
        )

    async def release(self, spender: Spender, reservation: str) -> None:
        """Give back the reservation of a call that was not billed."""
        await self._store.release(spender.session_id, reservation)

    async def count_lost(self) -> None:
        """Charge the reservations of calls whose agent died, at the reserved amounts."""
        await self._store.count_lost()

    def _limits(
        self, snapshot: ConfigSnapshot, spender: Spender, job_id: str | None
    ) -> tuple[_Limit, ...]:
        now, own_zone = self._clock.now(), zone_of(snapshot, spender.agent_id)
        limits = []
        for budget, amount in _budgets(snapshot, spender).money.items():
            if budget == "usd_per_job" and job_id is None:
                continue
            if budget in _OF_SESSIONS and spender.session_id is None:
                continue
            if budget not in TOTALS and spender.agent_id is None:
                continue
            zone = zone_of(snapshot, None) if budget in TOTALS else own_zone
            limits.append(_Limit(budget, amount, zone, period_of(budget, now, zone)))
        return tuple(limits)

    async def _read_use(
        self,
        transaction: ReservationTransaction,
        spender: Spender,
        request: ReserveMoney,
        limit: _Limit,
    ) -> _LimitUse:
        """Return what a budget has been used for, with calls in flight, and its limit with grants."""
        scope = BudgetScope(
            limit.budget, spender.session_id, spender.agent_id, request.job_id, limit.period
        )
        use = await transaction.read_use(scope)
        return _LimitUse(use.spent + use.reserved, limit.amount + use.granted)

    def _row(
        self,
        snapshot: ConfigSnapshot,
        spender: Spender,
        request: ReserveMoney,
        entry: PricedEntry,
    ) -> PlannedCharge:
        zone = ZoneInfo(zone_of(snapshot, spender.agent_id))
        return PlannedCharge(
            session_id=spender.session_id,
            epoch=spender.epoch,
            agent_id=spender.agent_id,
            job_id=request.job_id,
            kind=request.kind,
            name=request.name,
            model=provider_model(entry),
            day=self._clock.now().astimezone(zone).date(),
            hold_s=request.hold_s,
        )


def _budgets(snapshot: ConfigSnapshot, spender: Spender) -> Budgets:
    if spender.agent_id is None:
        return snapshot.config.budgets
    return snapshot.budgets_for(spender.agent_id)


def _refusal(
    snapshot: ConfigSnapshot, spender: Spender, limit: _Limit, *, use: _LimitUse, needed: Decimal
) -> MoneyReserved:
    """Return the answer to a call that needs more than a budget has left."""
    end = limit.period.end if limit.period else None
    text = _refusal_text(snapshot, spender, limit, used=use.used, needed=needed, total=use.total)
    refusal = MoneyAnswer(
        budget=limit.budget,
        limit_micro_usd=int((use.total * MICRO_USD).to_integral_value(ROUND_DOWN)),
        until=format_log_time(end.astimezone(UTC)) if end else "",
        text=text,
    )
    refusal.set_notice(text)
    return refusal


def _refusal_text(
    snapshot: ConfigSnapshot,
    spender: Spender,
    limit: _Limit,
    *,
    used: Decimal,
    needed: Decimal,
    total: Decimal,
) -> str:
    """Return the question to the user, or the notice about a call without a session."""
    budget = limit.budget
    path = _path_of(snapshot, spender.agent_id, budget)
    if spender.session_id is None:
        notice = direct_call_notice if spender.is_direct else memory_notice
        return notice(budget, used=used, needed=needed, limit=total, path=path)
    people, dm = snapshot.people, spender.dm or ""
    return budget_question(
        budget,
        used=used,
        needed=needed,
        limit=total,
        configured=limit.amount,
        end=limit.period.end if limit.period else None,
        zone=limit.zone,
        may_grant=people.may_decide(dm) and may_be_granted(budget, is_admin=people.is_admin(dm)),
        path=path,
    )


def _path_of(snapshot: ConfigSnapshot, agent_id: str | None, budget: MoneyBudget) -> str:
    """Return the path of a limit in config.json: the agent's own, or the general one."""
    agent = snapshot.config.agents.get(agent_id or "")
    is_own = agent is not None and getattr(agent.budgets, budget, None) is not None
    return f"agents.{agent_id}.budgets.{budget}" if is_own else f"budgets.{budget}"

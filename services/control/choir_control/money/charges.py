"""Pricing of usage with the prices in force, and of the grants that users give.

Usage is priced when it becomes durable. A later change of prices does not change what calls have cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal
from zoneinfo import ZoneInfo

from choir_common.lanes import dm_of
from choir_common.wire.config import Config
from choir_common.wire.money import MoneyBudget
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.host_timezone import read_host_timezone
from choir_control.configuration.prices import (
    KnownPrices,
    PricedEntry,
    prices_in_table,
    prices_of,
)
from choir_control.money.pricing import cost_of
from choir_control.money.usage import ProviderUsage

CostSource = Literal["config", "table", "free", "provider", "unknown", "estimated", "reserved"]
"""`provider`: the provider's own statement; `estimated`: Choir's prices for estimated tokens; `reserved`: the
usage was lost in a crash, and the reserved amount is charged."""
TOTALS: frozenset[MoneyBudget] = frozenset({"total_usd_per_day", "total_usd_per_month"})
"""Budgets of all agents together."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Priced usage: an entry of the ledger."""

    usage: ProviderUsage
    agent_id: str | None
    day: date
    """The day in the time zone of the agent."""
    cost: Decimal | None
    """US dollars; None: unknown."""
    computed: Decimal | None
    """What Choir's prices give, also if the provider stated its own amount."""
    source: CostSource


@dataclass(frozen=True, slots=True)
class ReportedGrant:
    """A user's permission to exceed a budget, as an event states it."""

    rev: int
    budget: MoneyBudget
    at: datetime
    lane: str
    """The edge lane of the conversation that gave it."""


@dataclass(frozen=True, slots=True)
class PricedGrant:
    """A permission with the amount that the configuration gives it."""

    grant: ReportedGrant
    amount: Decimal


class ChargePricer:
    """Pricing with the configuration in force."""

    def __init__(self, configuration: ConfigService) -> None:
        self._configuration = configuration

    def price(self, agent_id: str | None, usages: Sequence[ProviderUsage]) -> tuple[Charge, ...]:
        """Return the ledger entries of an agent's usage."""
        if not usages:
            return ()
        snapshot = self._configuration.current
        zone = ZoneInfo(zone_of(snapshot, agent_id))
        return tuple(_charge(snapshot.config, agent_id, usage, zone) for usage in usages)

    def price_grants(
        self, agent_id: str, dms: Sequence[str], grants: Sequence[ReportedGrant]
    ) -> tuple[PricedGrant, ...]:
        """Return the grants with their amounts: the configured limit again.

        `dms` are the conversations of the session, its home conversation first. A grant without a
        configured limit has no effect, and neither has one of somebody who may not decide on money.
        """
        snapshot = self._configuration.current
        limits = snapshot.budgets_for(agent_id).money
        return tuple(
            PricedGrant(grant, limits[grant.budget])
            for grant in grants
            if grant.budget in limits and _may_grant(snapshot, grant, dms)
        )


def _may_grant(snapshot: ConfigSnapshot, grant: ReportedGrant, dms: Sequence[str]) -> bool:
    """Return whether the conversation that gave it may: a budget of all agents only an admin's."""
    dm = dm_of(grant.lane, dms[0])
    if grant.budget in TOTALS:
        return dm in dms and snapshot.people.is_admin(dm or "")
    return snapshot.people.may_decide(dm or "")


def zone_of(snapshot: ConfigSnapshot, agent_id: str | None) -> str:
    """Return the time zone of an agent's days; the host's for what is not one agent's."""
    agent = None if agent_id is None else snapshot.config.agents.get(agent_id)
    return (agent.timezone if agent else None) or read_host_timezone()


def find_prices(config: Config, usage: ProviderUsage) -> KnownPrices | None:
    """Return the prices of a call: of the entry that made it, or of the model's name in the table."""
    entry = _entry(config, usage)
    return prices_in_table(usage.model) if entry is None else prices_of(entry)


def _charge(config: Config, agent_id: str | None, usage: ProviderUsage, zone: ZoneInfo) -> Charge:
    price = find_prices(config, usage)
    computed = None if price is None else cost_of(usage, price.prices)
    cost = computed
    source: CostSource = "unknown" if price is None or computed is None else price.source
    if usage.billed_usd is not None:
        cost, source = usage.billed_usd, "provider"
    elif computed and not usage.counted:
        source = "estimated"
    return Charge(usage, agent_id, usage.at.astimezone(zone).date(), cost, computed, source)


def _entry(config: Config, usage: ProviderUsage) -> PricedEntry | None:
    match usage.kind:
        case "embedding":
            return config.embedding
        case "speech":
            return config.tts.get(usage.name)
        case "transcription":
            return config.transcription.get(usage.name)
        case "memory":
            return config.models.get(usage.name or config.memory.model or "")
        case "chat":
            entry = config.models.get(usage.name)
            # Logs of older versions do not name the entry.
            matching = (model for model in config.models.values() if model.model == usage.model)
            return entry or next(matching, None)

"""Reports of costs for operators and users, and the intake of memory's usage reports."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from zoneinfo import ZoneInfo

from choir_common.clock import Clock
from choir_common.wire.messages import Empty
from choir_common.wire.money import CostGroup, CostLine, CostReport, UsageReport, UsageReports
from choir_control.configuration.current import ConfigService
from choir_control.configuration.prices import load_price_table, unpriced_entries
from choir_control.money.charges import ChargePricer, zone_of
from choir_control.money.cost_metrics import CostMetrics
from choir_control.money.cost_store import CostQuery, CostStore, total_of
from choir_control.money.ledger_store import LedgerStore
from choir_control.money.usage import ProviderUsage, usage_of_report


class CostService:
    """What calls have cost."""

    def __init__(
        self,
        *,
        store: CostStore,
        ledger: LedgerStore,
        pricer: ChargePricer,
        metrics: CostMetrics,
        configuration: ConfigService,
        clock: Clock,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._pricer = pricer
        self._metrics = metrics
        self._configuration = configuration
        self._clock = clock

    def today(self, agent_id: str | None = None) -> date:
        """Return today in an agent's time zone, or in the host's."""
        zone = zone_of(self._configuration.current, agent_id)
        return self._clock.now().astimezone(ZoneInfo(zone)).date()

    async def report(self, by: CostGroup, query: CostQuery) -> CostReport:
        """Return the costs by group."""
        lines = await self._store.sum_by(by, query)
        return CostReport(
            by=by,
            since=query.since.isoformat(),
            until=query.until.isoformat(),
            total=total_of(lines),
            lines=tuple(lines),
            prices_date=load_price_table().date.isoformat(),
            unpriced=self.unpriced(),
        )

    def unpriced(self) -> tuple[str, ...]:
        """Return the paths of the configured entries whose price is unknown."""
        return tuple(unpriced_entries(self._configuration.current.config))

    async def spent_today(self, agent_id: str | None = None) -> CostLine:
        """Return what was spent today, by one agent or altogether."""
        today = self.today(agent_id)
        query = CostQuery(since=today, until=today, agent_id=agent_id)
        return total_of(await self._store.sum_by("kind", query))

    async def record(self, request: UsageReports) -> Empty:
        """Store the usage of memory, each report once."""
        by_agent: dict[str | None, list[UsageReport]] = defaultdict(list)
        for report in request.reports:
            by_agent[report.agent_id].append(report)
        for agent_id, reports in by_agent.items():
            await self.record_usage(agent_id, [usage_of_report(report) for report in reports])
        return Empty()

    async def record_usage(self, agent_id: str | None, usages: Sequence[ProviderUsage]) -> None:
        """Store usage that control itself has caused, each entry once."""
        charges = self._pricer.price(agent_id, usages)
        self._metrics.count(await self._ledger.insert(charges))

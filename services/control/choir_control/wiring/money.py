"""Wiring of prices, the ledger and budgets in money."""

from choir_common.clock import Clock
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_control.configuration.current import ConfigService
from choir_control.money.budgets import MoneyBudgetService
from choir_control.money.charges import ChargePricer
from choir_control.money.cost_metrics import CostMetrics
from choir_control.money.cost_store import CostStore
from choir_control.money.costs import CostService
from choir_control.money.ledger_store import LedgerStore
from choir_control.money.memory_budgets import ConversationRescanner, MemoryBudgetService
from choir_control.money.reservation_store import ReservationStore


class MoneyServices:
    """Prices, costs and budgets."""

    def __init__(
        self, *, database: Database, configuration: ConfigService, clock: Clock, metrics: Metrics
    ) -> None:
        self.metrics = CostMetrics(metrics)
        self.pricer = ChargePricer(configuration)
        self.costs = CostService(
            store=CostStore(database),
            ledger=LedgerStore(database),
            pricer=self.pricer,
            metrics=self.metrics,
            configuration=configuration,
            clock=clock,
        )
        self._configuration = configuration
        self._reservations = ReservationStore(database)
        self.budgets = MoneyBudgetService(self._reservations, configuration, clock)

    def memory_budgets(self, outbox: ConversationRescanner) -> MemoryBudgetService:
        """Return the budgets of memory, which adds notices to the outbox."""
        return MemoryBudgetService(
            budgets=self.budgets,
            store=self._reservations,
            configuration=self._configuration,
            outbox=outbox,
        )

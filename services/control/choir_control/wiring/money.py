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
        self.budgets = MoneyBudgetService(ReservationStore(database), configuration, clock)

"""Prometheus counters of costs. They are floating point and start again with control; the ledger is exact."""

from collections.abc import Sequence

from choir_common.metrics import Metrics
from choir_control.money.charges import Charge

MAX_MODELS = 100
"""Models with their own time series. Providers choose the names, so the number must be bounded."""
MAX_MODEL_NAME = 80
LABELS = ("agent", "model", "kind")


class CostMetrics:
    """Counters of the cost of provider calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._model_names: set[str] = set()
        self._cost = metrics.counter(
            "choir_cost_usd", "Known cost of provider calls, in US dollars.", *LABELS
        )
        self._unpriced = metrics.counter(
            "choir_unpriced_calls", "Provider calls without a known price.", *LABELS
        )

    def count(self, charges: Sequence[Charge]) -> None:
        """Count calls that just became durable."""
        for charge in charges:
            usage = charge.usage
            labels = (charge.agent_id or "", self._label(usage.model), usage.kind)
            if charge.cost is None:
                self._unpriced.labels(*labels).inc(usage.calls)
            else:
                self._cost.labels(*labels).inc(float(charge.cost))

    def _label(self, model: str) -> str:
        name = model[:MAX_MODEL_NAME]
        if name not in self._model_names and len(self._model_names) >= MAX_MODELS:
            return "other"
        self._model_names.add(name)
        return name

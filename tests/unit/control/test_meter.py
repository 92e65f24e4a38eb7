"""Tokens are counted by agent and model, and no outsider can create an unlimited number of series."""

from datetime import UTC, datetime

from choir_common.eventlog.chain import LogHead, link_event
from choir_common.metrics import Metrics
from choir_common.wire.events import (
    Event,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
)
from choir_control.log.metrics.meter import (
    MAX_MODEL_NAME,
    MAX_MODELS,
    ControlMetrics,
    GaugeStore,
    PendingWork,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)


class NoGauges(GaugeStore):
    """A store without pending work."""

    def __init__(self) -> None:
        pass

    async def read_pending(self) -> PendingWork:
        return PendingWork({}, 0, 0, 0.0, 0, 0)


def event(payload: EventPayload) -> Event:
    return link_event(LogHead(), "ses_1", "edge", payload, NOW)


def answered(model: str, prompt: int = 0, completion: int = 0, cached: int = 0) -> Event:
    output = ModelOutput(
        turn_id="t", text="", model=model, finish_reason="stop",
        prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached,
    )  # fmt: skip
    return event(output)


def compacted(model: str, prompt: int, completion: int) -> Event:
    done = MemoryCompacted(
        target="edge", through_rev=1, delta={}, summary=ReferenceSummary(),
        model=model, prompt_tokens=prompt, completion_tokens=completion, failed="no JSON",
    )  # fmt: skip
    return event(done)


def tokens(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    """Return the count for each agent, model and kind."""
    return {
        (sample.labels["agent"], sample.labels["model"], sample.labels["kind"]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "choir_model_tokens_total"
    }


def test_tokens_are_counted_by_agent_and_model_those_of_failed_compactions_too() -> None:
    metrics = Metrics("test")
    meter = ControlMetrics(metrics, NoGauges())
    meter.count_events("main", [answered("fast", 100, 10, 80), compacted("fast", 50, 5)])
    meter.count_events("helper", [answered("deep", 7, 3), compacted("", 0, 0)])
    assert tokens(metrics) == {
        ("main", "fast", "prompt"): 150,
        ("main", "fast", "completion"): 15,
        ("main", "fast", "cached"): 80,
        ("helper", "deep", "prompt"): 7,
        ("helper", "deep", "completion"): 3,
        ("helper", "deep", "cached"): 0,
    }


def test_names_without_end_are_counted_together() -> None:
    metrics = Metrics("test")
    meter = ControlMetrics(metrics, NoGauges())
    for number in range(MAX_MODELS + 50):
        meter.count_events("main", [answered(f"{number}" + "x" * 500, 1)])
    counted = tokens(metrics)
    assert len({model for _, model, _ in counted}) == MAX_MODELS + 1
    assert counted["main", "other", "prompt"] == 50
    assert all(len(model) <= MAX_MODEL_NAME for _, model, _ in counted)

"""Which failed model calls are repeated, after how long, and when a lane uses another model."""

import socket
from datetime import UTC, datetime

import pytest

from choir_agent.models.lane_models import models_for_lane
from choir_agent.models.retry_policy import MAX_WAIT_S, RETRIES, RetrySchedule
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.config_parts import FeatureFlags
from choir_models.fallback import COOL_DOWN_S, MAX_COOL_DOWN_S, CoolDowns, NamedModel
from choir_models.model import ModelFailed, NoModelResponse
from choir_models.openai.client import OpenAiClient
from tests.support.ports import free_port

DOWN = NoModelResponse("503")
JITTER = 1.3


class ManualClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


def settings(**changes: object) -> AgentSettings:
    """Return settings with a first pause of one second."""
    fields: dict[str, object] = {
        "model_name": "main",
        "model": model("main", "spare", "third"),
        "fallback_models": {"spare": model("spare"), "third": model("third")},
        "budgets": Budgets(),
        "heartbeat_interval_ms": 1000,
        "rate_limit_retry_ms": 1000,
        "event_window": 50,
    }
    return AgentSettings.model_validate(fields | changes)


def model(name: str, *fallback: str) -> ModelConfig:
    """Return a model with fallbacks."""
    return ModelConfig(model=name, endpoint="http://127.0.0.1:1/v1", fallback=fallback)


def pauses(schedule: RetrySchedule, error: ModelFailed, most: int = 50) -> list[float]:
    """Return the pauses until the schedule gives up."""
    found: list[float] = []
    while len(found) < most and (pause_s := schedule.next_pause_s(error)) is not None:
        found.append(pause_s)
    return found


def test_the_edge_lane_repeats_a_passing_failure_with_growing_pauses_and_gives_up() -> None:
    found = pauses(RetrySchedule(settings(), "edge"), DOWN)
    assert len(found) == RETRIES
    assert all(0.7 * 2**n <= pause <= JITTER * 2**n for n, pause in enumerate(found))


def test_a_core_job_goes_on_for_ten_minutes_and_longer_with_pauses_of_a_minute_at_most() -> None:
    found = pauses(RetrySchedule(settings(), "core:x"), DOWN)
    assert len(found) == 50
    assert sum(found) > 600
    assert max(found) <= 60 * JITTER


def test_what_waiting_cannot_mend_is_repeated_by_no_lane() -> None:
    for cause in ("key", "credit", "not_found", "request", "format"):
        error = ModelFailed("no", cause=cause)
        assert pauses(RetrySchedule(settings(), "edge"), error) == []
        assert pauses(RetrySchedule(settings(), "core:x"), error) == []


def test_only_a_core_job_repeats_a_call_that_timed_out() -> None:
    error = ModelFailed("slow", cause="timeout")
    assert pauses(RetrySchedule(settings(), "edge"), error) == []
    assert len(pauses(RetrySchedule(settings(), "core:x"), error, most=3)) == 3


def test_a_wait_that_the_provider_asks_for_is_kept_if_the_user_can_wait_for_it() -> None:
    limited = ModelFailed("slow down", cause="rate", retry_after_s=50.0)
    assert pauses(RetrySchedule(settings(), "edge"), limited) == [50.0, 50.0]
    assert MAX_WAIT_S >= 2 * 50.0
    hour = ModelFailed("slow down", cause="rate", retry_after_s=3600.0)
    assert pauses(RetrySchedule(settings(), "edge"), hour) == []


def test_retries_can_be_switched_off() -> None:
    off = settings(features=FeatureFlags(model_retries=False))
    assert pauses(RetrySchedule(off, "edge"), DOWN) == []
    assert pauses(RetrySchedule(off, "core:x"), DOWN) == []


def names(models: tuple[NamedModel, ...]) -> list[str]:
    """Return the names of models."""
    return [one.name for one in models]


def test_a_model_that_failed_comes_last_until_its_cool_down_is_over() -> None:
    clock = ManualClock()
    cool_downs, models = CoolDowns(clock), models_for_lane(settings(), "edge")
    assert names(cool_downs.order(models)) == ["main", "spare", "third"]
    cool_downs.record_failure(models[0], DOWN)
    assert names(cool_downs.order(models)) == ["spare", "third", "main"]
    clock.advance(COOL_DOWN_S * JITTER)
    assert names(cool_downs.order(models)) == ["main", "spare", "third"]


def test_a_cool_down_grows_with_each_failure_and_ends_with_a_success() -> None:
    clock = ManualClock()
    cool_downs, models = CoolDowns(clock), models_for_lane(settings(), "edge")
    for _ in range(3):
        cool_downs.record_failure(models[0], DOWN)
    clock.advance(COOL_DOWN_S * JITTER)
    assert names(cool_downs.order(models))[-1] == "main"
    cool_downs.record_success(models[0])
    assert names(cool_downs.order(models))[0] == "main"


def test_a_model_with_a_bad_key_cools_down_long_but_not_beyond_a_change_of_its_settings() -> None:
    clock = ManualClock()
    cool_downs, models = CoolDowns(clock), models_for_lane(settings(), "edge")
    cool_downs.record_failure(models[0], ModelFailed("401", cause="key"))
    clock.advance(MAX_COOL_DOWN_S - 1)
    assert names(cool_downs.order(models))[-1] == "main"
    mended = settings(model=model("better", "spare", "third"))
    assert names(cool_downs.order(models_for_lane(mended, "edge")))[0] == "main"


def test_a_lane_without_a_model_of_its_own_has_the_fallbacks_of_the_edge_lane() -> None:
    assert names(models_for_lane(settings(), "core:x")) == ["main", "spare", "third"]
    own = settings(core_model_name="deep", core_model=model("deep", "third"))
    assert names(models_for_lane(own, "core:x")) == ["deep", "third"]


async def test_a_refused_connection_may_pass_and_a_silent_provider_is_a_timeout() -> None:
    client = OpenAiClient(f"http://127.0.0.1:{free_port()}/v1", None)
    with pytest.raises(NoModelResponse):
        await client.complete(b"{}", 5.0)
    await client.close()
    # connections wait in the backlog, and nobody takes them
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = OpenAiClient(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", None)
        with pytest.raises(ModelFailed) as failed:
            await client.complete(b"{}", 0.2)
        await client.close()
    assert not isinstance(failed.value, NoModelResponse)
    assert failed.value.cause == "timeout"

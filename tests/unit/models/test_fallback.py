"""Which model of a chain answers, and which failure is reported."""

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import RateLimited
from choir_common.wire.config import ModelConfig
from choir_models.fallback import CoolDowns, NamedModel, call_first
from choir_models.model import ModelFailed, NoModelResponse

CHAIN = [NamedModel(name, ModelConfig(model=name)) for name in ("first", "second", "third")]
DOWN = NoModelResponse("no connection")
TOO_LONG = ModelFailed("too long", cause="too_long")


class Models:
    """Models that fail as they are told to."""

    def __init__(self, **failures: Exception) -> None:
        self._failures = failures
        self.asked: list[str] = []

    async def call(self, model: NamedModel) -> str:
        self.asked.append(model.name)
        if model.name in self._failures:
            raise self._failures[model.name]
        return model.name


async def test_the_first_model_that_answers_counts_and_failed_ones_cool_down() -> None:
    models, cool_downs = (
        Models(first=DOWN, second=RateLimited("slow down")),
        CoolDowns(SystemClock()),
    )
    for _ in range(2):
        assert await call_first(CHAIN, cool_downs, models.call) == "third"
    assert models.asked == ["first", "second", "third", "third"]


async def test_the_failure_of_the_first_model_is_reported() -> None:
    models = Models(first=RateLimited("slow down", retry_after_s=7), second=DOWN, third=DOWN)
    with pytest.raises(ModelFailed, match="slow down") as failure:
        await call_first(CHAIN, CoolDowns(SystemClock()), models.call)
    assert (failure.value.cause, failure.value.retry_after_s) == ("rate", 7)


async def test_a_failure_about_the_prompt_ends_the_chain_at_the_first_model_only() -> None:
    models = Models(first=TOO_LONG)
    with pytest.raises(ModelFailed, match="too long"):
        await call_first(CHAIN, CoolDowns(SystemClock()), models.call)
    assert models.asked == ["first"]
    # a fallback may have a shorter context
    models, cool_downs = Models(first=DOWN, second=TOO_LONG), CoolDowns(SystemClock())
    assert await call_first(CHAIN, cool_downs, models.call) == "third"
    assert cool_downs.order(CHAIN)[0].name == "second"

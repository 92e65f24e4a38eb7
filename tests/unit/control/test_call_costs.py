"""What a planned call can cost, and how long a completion an amount pays for."""

from decimal import Decimal

import pytest

from choir_common.wire.config import ModelConfig
from choir_common.wire.money import ReserveMoney
from choir_control.money.call_costs import NOTHING, highest_call_cost

REQUEST = ReserveMoney(
    name="m",
    prompt_tokens=1_000,
    completion_tokens=32_000,
    least_completion_tokens=2_000,
    hold_s=60,
)


def a_model(output: float) -> ModelConfig:
    prices = {"input": 1, "output": output}
    return ModelConfig.model_validate({"model": "m", "endpoint": "http://x", "prices": prices})


@pytest.mark.parametrize(
    ("dollars", "tokens"),
    [
        ("1", 32_000),
        ("0.321", 32_000),
        ("0.320999999999", 31_999),
        ("0.001", 0),
        ("0.000999999999", NOTHING),
        ("-1", NOTHING),
    ],
)
def test_an_amount_pays_for_its_prompt_and_a_completion(dollars: str, tokens: int) -> None:
    cost = highest_call_cost(a_model(10), REQUEST)
    assert cost is not None and cost.least_completion == 2_000
    assert cost.longest_completion(Decimal(dollars), 32_000) == tokens
    if tokens > NOTHING:
        assert cost.of(tokens) <= Decimal(dollars)


def test_a_completion_that_costs_nothing_is_as_long_as_it_was_requested() -> None:
    cost = highest_call_cost(a_model(0), REQUEST)
    assert cost is not None and not cost.per_token
    assert cost.longest_completion(Decimal("0.001"), 32_000) == 32_000
    assert cost.longest_completion(Decimal(0), 32_000) == NOTHING


def test_without_a_shortest_completion_only_the_longest_one_is_worth_the_call() -> None:
    cost = highest_call_cost(
        a_model(10), REQUEST.model_copy(update={"least_completion_tokens": None})
    )
    assert cost is not None and cost.least_completion == 32_000
    short = highest_call_cost(a_model(10), REQUEST.model_copy(update={"completion_tokens": 100}))
    assert short is not None and short.least_completion == 100

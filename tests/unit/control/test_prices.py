"""Costs are exact, and a price is known or said to be unknown."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.wire.config import (
    Config,
    EmbeddingConfig,
    ModelConfig,
    TranscriptionConfig,
    TtsConfig,
)
from choir_common.wire.config_parts import Budgets
from choir_common.wire.money import ModelPrices
from choir_common.wire.money_text import format_usd
from choir_control.configuration.prices import (
    AllPrices,
    load_price_table,
    prices_of,
    unpriced_entries,
)
from choir_control.configuration.validation import find_faults
from choir_control.money.periods import period_of
from choir_control.money.pricing import cost_of, highest_cost, highest_speech_cost
from choir_control.money.usage import ProviderUsage

USAGE = ProviderUsage(
    entry_id="s:1", kind="chat", at=datetime(2026, 11, 23, tzinfo=UTC), name="m", model="m"
)
PRICES = AllPrices.model_validate_json(
    '{"input": 3, "cached_input": 0.3, "cache_write": 3.75, "output": 15}'
)


def test_each_kind_of_token_has_its_price() -> None:
    usage = replace(
        USAGE,
        prompt_tokens=1_000,
        cached_tokens=600,
        cache_write_tokens=300,
        completion_tokens=50,
        reasoning_tokens=20,
    )
    expected = Decimal("600") * Decimal("0.3") + 300 * Decimal("3.75") + 100 * 3 + 50 * 15
    assert cost_of(usage, PRICES) == expected / 1_000_000
    dearer = PRICES.model_copy(update={"reasoning": Decimal(30)})
    assert cost_of(usage, dearer) == (expected + 20 * 15) / 1_000_000
    audio = replace(USAGE, prompt_tokens=100, audio_input_tokens=40, completion_tokens=10)
    with_audio = PRICES.model_copy(update={"audio_input": Decimal(40)})
    assert cost_of(audio, with_audio) == Decimal(60 * 3 + 40 * 40 + 10 * 15) / 1_000_000


def test_a_long_prompt_has_its_own_prices() -> None:
    text = '{"input":2,"output":12,"long_prompt":{"above_tokens":200000,"input":4,"output":18}}'
    prices = AllPrices.model_validate_json(text)
    short = replace(USAGE, prompt_tokens=200_000, completion_tokens=10)
    assert cost_of(short, prices) == Decimal("0.40012")
    assert cost_of(replace(short, prompt_tokens=200_001), prices) == Decimal("0.800184")


def test_audio_and_characters_have_prices_of_their_own() -> None:
    transcription = replace(USAGE, kind="transcription", audio_seconds=Decimal(90))
    speech = replace(USAGE, kind="speech", characters=2_000)
    prices = AllPrices.model_validate_json('{"audio_minute": 0.006, "million_characters": 15}')
    assert cost_of(transcription, prices) == Decimal("0.009")
    assert cost_of(speech, prices) == Decimal("0.03")
    assert cost_of(transcription, PRICES) is None and cost_of(speech, PRICES) is None


def test_a_transcription_costs_what_its_tokens_or_its_minutes_cost() -> None:
    heard = replace(USAGE, kind="transcription", audio_seconds=Decimal(30))
    both = load_price_table().find("gpt-4o-transcribe")
    assert both is not None
    assert cost_of(heard, both) == Decimal("0.003"), "without tokens, by the minute"
    counted = replace(heard, prompt_tokens=300, audio_input_tokens=280, completion_tokens=100)
    assert cost_of(counted, both) == Decimal(300) * Decimal("2.5") / 10**6 + Decimal("0.001")
    own = AllPrices.model_validate_json('{"input": 1, "audio_input": 6, "output": 10}')
    assert cost_of(counted, own) == Decimal(20 * 1 + 280 * 6 + 100 * 10) / 10**6
    assert cost_of(heard, own) is None, "no minutes and no tokens"
    whisper = load_price_table().find("whisper-1")
    assert whisper is not None and cost_of(counted, whisper) == Decimal("0.003")
    # what is reserved is at least what it costs
    for prices in (both, own, whisper):
        highest = highest_speech_cost(prices, Decimal(30), None)
        assert highest is not None and highest >= (cost_of(counted, prices) or 0)


def test_a_cache_of_an_hour_costs_twice_the_input() -> None:
    usage = replace(USAGE, prompt_tokens=1_000, cache_write_tokens=600, cache_write_1h_tokens=400)
    expected = Decimal(400 * 3 + 400 * 6) + 200 * Decimal("3.75")
    assert cost_of(usage, PRICES) == expected / 10**6
    own = PRICES.model_copy(update={"cache_write_1h": Decimal(5)})
    assert cost_of(usage, own) == (expected - 400) / 10**6
    assert highest_cost(PRICES, 1_000, 0, has_long_cache=True) == Decimal("0.006")


def test_a_missing_price_makes_the_cost_unknown_and_never_zero() -> None:
    only_input = AllPrices(input=Decimal(1))
    assert cost_of(replace(USAGE, prompt_tokens=10), only_input) == Decimal("0.00001")
    assert cost_of(replace(USAGE, prompt_tokens=10, completion_tokens=1), only_input) is None
    assert highest_cost(only_input, 10, 10) is None


def test_the_parts_of_contradictory_counts_never_exceed_the_whole() -> None:
    usage = replace(USAGE, prompt_tokens=10, cached_tokens=50, cache_write_tokens=50)
    assert cost_of(usage, PRICES) == Decimal("0.000003")


@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.decimals(0, 1_000, places=6)),
        max_size=50,
    )
)
def test_sums_of_costs_are_exact(calls: list[tuple[int, int, Decimal]]) -> None:
    total, exact = Decimal(0), Fraction(0)
    for prompt, completion, price in calls:
        prices = AllPrices(input=price, output=price)
        cost = cost_of(replace(USAGE, prompt_tokens=prompt, completion_tokens=completion), prices)
        assert cost is not None and cost <= (highest_cost(prices, prompt, completion) or 0)
        total += cost
        exact += Fraction(price) * (prompt + completion) / 1_000_000
    assert Fraction(total) == exact


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("text-embedding-3-small", "text-embedding-3-small"),
    ],
)
def test_the_table_is_matched_by_the_providers_name(model: str, listed: str) -> None:
    table = load_price_table()
    assert table.find(model) == table.models[listed.replace(".", "-")] is not None


@pytest.mark.parametrize("model", ["gpt-4o-mini-tuned", "gpt-4o:free", "my-gpt-4o", "gpt", ""])
def test_another_model_is_not_in_the_table(model: str) -> None:
    assert load_price_table().find(model) is None


def test_configured_prices_win_and_a_local_model_is_free() -> None:
    own = ModelConfig(model="gpt-4o", prices=ModelPrices(input=Decimal(9)))
    known = prices_of(own)
    assert known is not None and (known.source, known.prices.input) == ("config", 9)
    local = prices_of(ModelConfig(api="ollama", model="qwen3"))
    assert local is not None and (local.source, local.prices.output) == ("free", 0)
    assert prices_of(ModelConfig(api="ollama", model="gpt-oss:120b-cloud")) is None
    assert prices_of(ModelConfig(model="qwen3", endpoint="http://127.0.0.1:1/v1")) is None


def test_a_limit_in_money_needs_the_price_of_every_model() -> None:
    models = {"a": ModelConfig(model="gpt-4o"), "b": ModelConfig(model="own")}
    ears = {
        "known": TranscriptionConfig(model="gpt-4o-transcribe", endpoint="http://x"),
        "own": TranscriptionConfig(model="large-v3", endpoint="http://x", model_dir="/models"),
        "other": TranscriptionConfig(model="large-v3", endpoint="http://x"),
    }
    voices = {
        "known": TtsConfig(model_id="eleven_flash_v2_5", endpoint="http://x", secret="s"),
        "other": TtsConfig(model_id="own", endpoint="http://x", secret="s"),
    }
    embedding = EmbeddingConfig(model="own", dimensions=3, endpoint="http://x")
    config = Config(
        agents={},
        workspaces={},
        models=models,
        embedding=embedding,
        transcription=ears,
        tts=voices,
    )
    unknown = ["models.b", "embedding", "tts.other", "transcription.other"]
    assert list(unpriced_entries(config)) == unknown
    assert not find_faults(config)
    limited = config.model_copy(update={"budgets": Budgets(usd_per_day=Decimal(5))})
    faults = find_faults(limited)
    assert len(faults) == 4 and "budgets.usd_per_day" in faults[0] and "models.b" in faults[0]


def test_days_and_months_are_those_of_the_time_zone() -> None:
    now = datetime(2026, 10, 25, 23, 30, tzinfo=UTC)
    day = period_of("usd_per_day", now, "Europe/Berlin")
    assert day is not None
    assert (day.start.isoformat(), day.end.isoformat()) == (
        "2026-10-25T23:00:00+00:00",
        "2026-10-26T23:00:00+00:00",
    )
    # the clocks went back at 03:00 that day: it had 25 hours
    long_day = period_of("usd_per_day", datetime(2026, 10, 25, 12, tzinfo=UTC), "Europe/Berlin")
    assert long_day is not None and (long_day.end - long_day.start).total_seconds() == 25 * 3600
    month = period_of("total_usd_per_month", datetime(2026, 12, 31, 23, tzinfo=UTC), "UTC")
    assert month is not None and month.end == datetime(2027, 1, 1, tzinfo=UTC)
    assert period_of("usd_per_session", now, "UTC") is None


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "$0.00"), ("1234.567", "$1,234.57"), ("0.01", "$0.01"), ("0.00012345", "$0.00013")],
)
def test_small_amounts_are_not_shown_as_nothing(amount: str, text: str) -> None:
    assert format_usd(Decimal(amount)) == text

"""The adapter of OpenAI-compatible providers: what it asks for, and what it makes of odd answers."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from choir_common.errors import DeadlineExceeded, InvalidRequest, RateLimited, Unavailable
from choir_memory.embedding.embedder import MAX_RETRY_AFTER_S
from choir_memory.usage.token_count import count_tokens
from tests.service.memory.provider import DIMENSIONS, ScriptedProvider, vector_of
from tests.service.memory.servers import until


async def test_vectors_come_in_the_order_of_the_texts(provider: ScriptedProvider) -> None:
    embedder = provider.embedder()
    texts = ["one", "two", "three"]
    made = await embedder.embed(texts)
    for text, vector in zip(texts, made, strict=True):
        assert list(vector) == pytest.approx(vector_of(text), abs=1e-6)
    await embedder.close()


async def test_the_tokens_of_a_callers_texts_are_counted_as_the_provider_does(
    provider: ScriptedProvider,
) -> None:
    embedder = provider.embedder()
    with count_tokens() as mine:
        await embedder.embed(["one two", "three"])
        with count_tokens() as inner:
            await embedder.embed(["four"])
    await embedder.embed(["five six seven"])
    assert (mine.tokens, inner.tokens) == (3, 1)
    assert provider.tokens == 7
    await embedder.close()


async def test_a_request_that_nobody_waits_for_is_estimated(provider: ScriptedProvider) -> None:
    """The provider has it and bills it; a request that never left costs nothing."""
    provider.mood = "slow"
    patient, hasty = provider.embedder(), provider.embedder(timeout_s=0.5)

    async def asked() -> bool:
        return bool(provider.batches)

    with count_tokens() as spent:
        cancelled = asyncio.create_task(patient.embed(["eight letters"]))
        await until(asked)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert spent.tokens == len("eight letters") // 4 + 1
        with pytest.raises(DeadlineExceeded):
            await hasty.embed(["four"])
        assert spent.tokens == 4 + 2
        await provider.stop()
        with pytest.raises(Unavailable):
            await patient.embed(["never sent"])
        assert spent.tokens == 4 + 2


async def test_a_provider_that_knows_no_base64_is_asked_for_numbers_from_then_on(
    provider: ScriptedProvider,
) -> None:
    provider.knows_base64 = False
    embedder = provider.embedder()
    for _ in range(2):
        assert list((await embedder.embed(["one"]))[0]) == pytest.approx(vector_of("one"))
    assert len(provider.batches) == 3
    await embedder.close()


async def test_a_refused_text_is_asked_for_once_when_base64_is_known(
    provider: ScriptedProvider,
) -> None:
    embedder = provider.embedder()
    await embedder.embed(["one"])
    with pytest.raises(InvalidRequest):
        await embedder.embed([provider.refused_word])
    assert len(provider.batches) == 2
    await embedder.close()


async def test_a_model_of_several_lengths_is_told_the_configured_one(
    provider: ScriptedProvider,
) -> None:
    provider.native = 2 * DIMENSIONS
    embedder = provider.embedder()
    for _ in range(2):
        assert len((await embedder.embed(["one"]))[0]) == DIMENSIONS
    assert len(provider.batches) == 3, "once known, it is asked at once"
    await embedder.close()


async def test_vectors_too_long_for_half_precision_keep_their_direction(
    provider: ScriptedProvider,
) -> None:
    provider.mood = "huge"
    embedder = provider.embedder()
    [vector] = await embedder.embed(["one two"])
    assert math.isclose(math.hypot(*vector), 1, rel_tol=1e-6)
    assert list(vector) == pytest.approx(vector_of("one two"), rel=1e-5)
    await embedder.close()


async def test_a_vector_of_zeros_is_no_vector(provider: ScriptedProvider) -> None:
    provider.mood = "zero"
    embedder = provider.embedder()
    with pytest.raises(Unavailable, match="zero or non-finite vector"):
        await embedder.embed(["one"])
    await embedder.close()


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("0.5", 0.5, 0.5),
        ("-3", 0, 0),
        ("100000", MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
        ("soon", 1, 1),
        (format_datetime(datetime(2999, 1, 1, tzinfo=UTC), usegmt=True), MAX_RETRY_AFTER_S, 300),
        (format_datetime(datetime(2001, 1, 1, tzinfo=UTC), usegmt=True), 0, 0),
        # minus zero: in UTC, from nowhere in particular
        (format_datetime(datetime(2001, 1, 1)), 0, 0),  # noqa: DTZ001
    ],
)
async def test_retry_after_is_a_number_or_a_date_and_bounded(
    provider: ScriptedProvider, header: str, least: float, most: float
) -> None:
    provider.mood, provider.retry_after = "rate_limited", header
    embedder = provider.embedder()
    with pytest.raises(RateLimited) as caught:
        await embedder.embed(["one"])
    assert least <= (caught.value.retry_after_s or 0) <= most
    await embedder.close()


async def test_a_date_in_retry_after_is_waited_for(provider: ScriptedProvider) -> None:
    at = datetime.now(UTC) + timedelta(seconds=120)
    provider.mood, provider.retry_after = "rate_limited", format_datetime(at, usegmt=True)
    embedder = provider.embedder()
    with pytest.raises(RateLimited) as caught:
        await embedder.embed(["one"])
    assert 60 < (caught.value.retry_after_s or 0) <= 120
    await embedder.close()

"""The offline model and the guard around an embedder."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import DeadlineExceeded, InvalidRequest, Unavailable
from choir_memory.embedding.circuit_breaker import OPEN_DURATION_S, EmbedderCircuitBreaker
from choir_memory.embedding.embedder import Vector, supports_sentences, to_halfvec
from choir_memory.embedding.offline import (
    MAX_ROWS,
    MAX_RUN_TOKENS,
    OfflineEmbedder,
    group_by_length,
)
from choir_memory.settings import OFFLINE_MODEL


@pytest.fixture
async def offline() -> AsyncIterator[OfflineEmbedder]:
    embedder = OfflineEmbedder("all-MiniLM-L6-v2-int8", 384)
    yield embedder
    await embedder.close()


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_the_offline_model_puts_like_near_like(offline: OfflineEmbedder) -> None:
    dog, puppy, tax = await offline.embed(
        ["The dog chased its tail.", "A puppy ran in circles.", "Tax returns are due in May."]
    )
    assert len(dog) == 384
    assert math.isclose(cosine(dog, dog), 1, abs_tol=1e-4)
    assert cosine(dog, puppy) > cosine(dog, tax) + 0.2


async def test_a_vector_hardly_depends_on_its_batch(offline: OfflineEmbedder) -> None:
    texts = [f"sentence {'and more ' * n}number {n}" for n in range(20)]
    together = await offline.embed(texts)
    alone = [(await offline.embed([text]))[0] for text in texts]
    assert all(cosine(a, b) > 0.98 for a, b in zip(together, alone, strict=True))


async def test_closing_a_model_cancels_nobody_who_waits_for_it() -> None:
    closing = OfflineEmbedder("all-MiniLM-L6-v2-int8", 384)
    await closing.embed(["load the model"])
    waiting = asyncio.create_task(closing.embed([f"asked before {n}" for n in range(20)]))
    await asyncio.sleep(0)
    await closing.close()
    await asyncio.wait([waiting])
    assert not waiting.cancelled()
    assert isinstance(waiting.exception(), Unavailable)
    with pytest.raises(Unavailable, match="was closed"):
        await closing.embed(["asked after"])


async def test_odd_texts_get_vectors_too(offline: OfflineEmbedder) -> None:
    vectors = await offline.embed(["", " ", "🦆" * 500, "貓", "x" * 5000])
    assert all(math.isfinite(value) for vector in vectors for value in vector)


async def test_a_query_does_not_wait_for_a_whole_batch_of_documents(
    offline: OfflineEmbedder,
) -> None:
    await offline.embed(["load the model"])
    order: list[str] = []

    async def embed(name: str, texts: Sequence[str]) -> None:
        await offline.embed(texts)
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(embed("documents", ["long text " * 100] * 16))
        await asyncio.sleep(0)
        tasks.create_task(embed("query", ["short"]))
    assert order == ["query", "documents"]


@given(st.lists(st.integers(1, 256), max_size=60))
def test_groups_hold_every_text_once_within_both_limits(lengths: list[int]) -> None:
    made = group_by_length(lengths)
    assert sorted(at for group in made for at in group) == list(range(len(lengths)))
    for group in made:
        assert len(group) <= MAX_ROWS
        assert len(group) * max(lengths[at] for at in group) <= MAX_RUN_TOKENS


def test_a_vector_is_written_as_pgvector_reads_it() -> None:
    assert to_halfvec([0.5, -1e-9, 1 / 3]).to_list() == [0.5, 0.0, 0.333251953125]


@dataclass
class StandIn:
    """An embedder that does what it is told."""

    name: str = "stand-in"
    dimensions: int = 2
    max_concurrency: int = 1
    error: Exception | None = None
    wait_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        await asyncio.sleep(self.wait_s)
        if self.error:
            raise self.error
        return [[1.0, 0.0] for _ in texts]

    async def close(self) -> None:
        return None


@dataclass
class SetClock:
    """A clock that stands where it is put."""

    at: float = 100.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at


async def fail(guard: EmbedderCircuitBreaker, times: int) -> None:
    for number in range(times):
        with pytest.raises(Unavailable):
            await guard.embed_query(f"failing {number}")


async def test_a_repeated_query_is_embedded_once() -> None:
    embedder = StandIn()
    guard = EmbedderCircuitBreaker(embedder, SetClock(), 1)
    assert await guard.embed_query("q") == await guard.embed_query("q")
    assert embedder.asked == ["q"]


async def test_an_embedder_that_is_down_is_left_alone_then_tried_once() -> None:
    embedder, clock = StandIn(error=Unavailable("It is down.")), SetClock()
    guard = EmbedderCircuitBreaker(embedder, clock, 1)
    await fail(guard, 10)
    assert len(embedder.asked) == 3
    clock.at += OPEN_DURATION_S + 0.1
    await fail(guard, 10)
    assert len(embedder.asked) == 4
    assert guard.trouble == "It is down."


async def test_an_embedder_that_is_back_is_used_again() -> None:
    embedder, clock = StandIn(error=Unavailable("It is down.")), SetClock()
    guard = EmbedderCircuitBreaker(embedder, clock, 1)
    await fail(guard, 3)
    embedder.error = None
    clock.at += OPEN_DURATION_S + 0.1
    await guard.embed_query("a")
    await guard.embed_query("b")
    assert guard.trouble is None


async def test_a_query_does_not_wait_past_its_deadline() -> None:
    guard = EmbedderCircuitBreaker(StandIn(wait_s=30), SetClock(), 0.05)
    with pytest.raises(DeadlineExceeded):
        await guard.embed_query("q")
    assert guard.trouble is not None


async def test_a_refused_text_is_no_trouble_of_the_embedder() -> None:
    guard = EmbedderCircuitBreaker(StandIn(error=InvalidRequest("too odd")), SetClock(), 1)
    with pytest.raises(InvalidRequest):
        await guard.embed_query("q")
    assert guard.trouble is None


@pytest.mark.parametrize(
    ("text", "is_supported"),
    [
        ("I drive a grey Volvo. Could you plan my week?", True),
        ("Ich fahre einen grauen Volvo. Planst du meine Woche?", False),
        ("Conduzco un Volvo gris. ¿Me planeas la semana?", False),
        ("我開灰色的車。可以幫我安排嗎？", False),
        ("Volvo? Berlin!", False),
    ],
)
def test_the_offline_model_reads_single_sentences_in_english_only(
    text: str, is_supported: bool
) -> None:
    assert supports_sentences(OFFLINE_MODEL, text) is is_supported
    assert supports_sentences("some-multilingual-model", text)

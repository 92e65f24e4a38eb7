"""Queries that wait at the same time go to the embedder in one call."""

import asyncio
from collections.abc import Sequence

import pytest

from choir_common.errors import InvalidRequest, Unavailable
from choir_memory.embedding.circuit_breaker import QueryBatcher
from choir_memory.embedding.embedder import BATCH_SIZE, Vector

CALLS = 2


class Desk:
    """An embedder that answers when the test allows it."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.open = asyncio.Event()
        self.down = False

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked.append(list(texts))
        await self.open.wait()
        await asyncio.sleep(0)
        if self.down:
            self.down = False
            raise Unavailable("The provider is away.")
        if "unspeakable" in texts:
            raise InvalidRequest("The provider refuses the text.")
        return [[float(len(text))] for text in texts]


async def ask(desk: Desk, *texts: str) -> list[Vector | BaseException]:
    """Ask for all at once, and answer once all of them wait."""
    together = QueryBatcher(desk, CALLS)
    tasks = [asyncio.create_task(together.embed(text)) for text in texts]
    while len(desk.asked) < min(CALLS, len(texts)):
        await asyncio.sleep(0)
    desk.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_few_go_alone_and_who_waits_goes_with_the_others_each_with_its_own_vector() -> None:
    desk, texts = Desk(), ["a" * size for size in range(1, 9)]
    assert await ask(desk, *texts) == [[float(size)] for size in range(1, 9)]
    assert desk.asked == [[texts[0]], [texts[1]], texts[2:]]


async def test_a_call_holds_no_more_than_a_batch() -> None:
    desk = Desk()
    await ask(desk, *(f"text {number}" for number in range(CALLS + BATCH_SIZE + 3)))
    assert [len(texts) for texts in desk.asked] == [1, 1, BATCH_SIZE, 3]


async def test_a_refused_text_fails_alone() -> None:
    desk = Desk()
    *good, bad, last = await ask(desk, "one", "two", "three", "unspeakable", "fifth")
    assert good == [[3.0], [3.0], [5.0]]
    assert isinstance(bad, InvalidRequest)
    assert last == [5.0]


async def test_who_fails_or_gives_up_leaves_the_call_to_the_next() -> None:
    desk = Desk()
    together = QueryBatcher(desk, 1)
    first = asyncio.create_task(together.embed("first"))
    second, third = (asyncio.create_task(together.embed(text)) for text in ("second", "third"))
    while not desk.asked:
        await asyncio.sleep(0)
    first.cancel()
    while len(desk.asked) < 2:
        await asyncio.sleep(0)
    desk.down = True
    desk.open.set()
    with pytest.raises(Unavailable):
        await second
    assert await third == [5.0]
    assert desk.asked == [["first"], ["second", "third"], ["second", "third"]]

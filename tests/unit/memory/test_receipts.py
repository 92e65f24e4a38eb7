"""Receipts of searches are stored in the background, together, in order, and before they are read."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest

from choir_common.errors import Unavailable
from choir_memory.search import receipt_writer
from choir_memory.search.receipt_store import NewReceipt
from choir_memory.search.receipt_writer import MAX_BATCH, MAX_PENDING, ReceiptWriter


class FakeTable:
    """A table that may be unavailable, and that rejects some receipts."""

    def __init__(self) -> None:
        self.statements: list[list[int]] = []
        self.failures = 0
        self.rejected: set[int] = set()

    async def insert(self, receipts: Sequence[NewReceipt]) -> None:
        await asyncio.sleep(0)
        numbers = [receipt.receipt_id.int for receipt in receipts]
        if self.failures:
            self.failures -= 1
            raise Unavailable("The database is away.")
        if self.rejected & set(numbers):
            raise asyncpg.UntranslatableCharacterError("no such character")
        self.statements.append(numbers)

    @property
    def stored(self) -> list[int]:
        return [number for statement in self.statements for number in statement]


def receipt(number: int) -> NewReceipt:
    return NewReceipt(UUID(int=number), "main", "main", "{}")


@pytest.fixture
def table() -> FakeTable:
    return FakeTable()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt_writer, "LINGER_S", 0.001)
    monkeypatch.setattr(receipt_writer, "RETRY_S", 0.001)


async def until_stored(table: FakeTable, count: int) -> None:
    async with asyncio.timeout(10):
        while len(table.stored) < count:
            await asyncio.sleep(0.001)


async def test_receipts_are_stored_together_without_being_waited_for(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    assert all(writer.add(receipt(number)) for number in range(5))
    await until_stored(table, 5)
    assert table.statements == [[0, 1, 2, 3, 4]]
    # the task has ended, and starts again
    await asyncio.sleep(0.01)
    assert writer.add(receipt(5))
    await until_stored(table, 6)
    assert table.stored == [0, 1, 2, 3, 4, 5]
    await writer.close()


async def test_a_flush_stores_what_is_queued_in_batches(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    for number in range(MAX_BATCH + 1):
        writer.add(receipt(number))
    await writer.flush()
    assert [len(statement) for statement in table.statements] == [MAX_BATCH, 1]
    assert table.stored == list(range(MAX_BATCH + 1))
    await writer.close()


async def test_receipts_wait_for_the_database(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    table.failures = 3
    writer.add(receipt(1))
    with pytest.raises(Unavailable):
        await writer.flush()
    writer.add(receipt(2))
    await until_stored(table, 2)
    assert table.stored == [1, 2]
    await writer.close()


async def test_a_cancelled_flush_loses_nothing(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    writer.add(receipt(1))
    flush = asyncio.create_task(writer.flush())
    await asyncio.sleep(0)
    flush.cancel()
    await asyncio.wait([flush])
    await writer.close()
    assert table.stored == [1]


async def test_a_rejected_receipt_takes_no_others_along(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    table.rejected = {2}
    for number in range(4):
        writer.add(receipt(number))
    await writer.close()
    assert table.stored == [0, 1, 3]


async def test_a_full_queue_refuses_more(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    for number in range(MAX_PENDING):
        assert writer.add(receipt(number))
    assert not writer.add(receipt(MAX_PENDING))
    await writer.close()
    assert len(table.stored) == MAX_PENDING
    assert writer.add(receipt(MAX_PENDING))
    await writer.close()


async def test_closing_gives_up_on_a_database_that_stays_away(table: FakeTable) -> None:
    writer = ReceiptWriter(table)
    table.failures = 1_000
    writer.add(receipt(1))
    await writer.close()
    assert table.stored == []

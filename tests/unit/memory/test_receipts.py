"""Receipts of searches that end together are kept together, and each search knows that its own is."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from choir_common.errors import Unavailable
from choir_memory.search.receipt_store import NewReceipt, ReceiptBatcher


class Table:
    """A store that takes its time, and may be away."""

    def __init__(self) -> None:
        self.statements: list[list[int]] = []
        self.open = asyncio.Event()
        self.away = 0

    async def insert(self, made: Sequence[NewReceipt]) -> None:
        self.statements.append([one.receipt_id.int for one in made])
        await self.open.wait()
        await asyncio.sleep(0)
        if self.away:
            self.away -= 1
            raise Unavailable("The database is away.")


async def keep(table: Table, count: int) -> list[object]:
    receipts = ReceiptBatcher()
    made = [NewReceipt(UUID(int=n), "main", "main", "{}") for n in range(count)]
    tasks = [asyncio.create_task(receipts.keep(table, one)) for one in made]
    while not table.statements:
        await asyncio.sleep(0)
    table.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_comes_while_a_statement_is_under_way_goes_into_the_next() -> None:
    table = Table()
    assert await keep(table, 5) == [None] * 5
    assert sorted(n for statement in table.statements for n in statement) == [0, 1, 2, 3, 4]
    assert len(table.statements) == 2


@pytest.mark.parametrize("away", [1, 2])
async def test_only_those_fail_who_tried_and_the_others_try_again(away: int) -> None:
    table = Table()
    table.away = away
    outcomes = await keep(table, 5)
    assert sum(isinstance(one, Unavailable) for one in outcomes) == away
    assert outcomes.count(None) == 5 - away
    assert set(table.statements[-1]) >= {4}

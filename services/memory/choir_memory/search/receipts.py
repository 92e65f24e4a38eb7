"""Keep the receipts of searches that end together in one statement.

Held by `recall`; next is `receipt_store`.
"""

import asyncio
from dataclasses import dataclass, field

from choir_memory.search.receipt_store import MadeReceipt, ReceiptStore


@dataclass(slots=True)
class _Batch:
    made: list[MadeReceipt] = field(default_factory=list)
    kept: bool = False


class Receipts:
    """The receipts that wait while a statement is under way: the first of them takes all along."""

    def __init__(self) -> None:
        self._open = _Batch()
        self._turn = asyncio.Lock()

    async def keep(self, store: ReceiptStore, made: MadeReceipt) -> None:
        """Return when it is kept; raises what `store` raises."""
        batch = self._open
        batch.made.append(made)
        async with self._turn:
            if batch is self._open:
                self._open = _Batch()
            # who failed, or had no time left, leaves the batch to the next
            if not batch.kept:
                await store.keep(batch.made)
                batch.kept = True

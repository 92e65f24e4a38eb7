"""Store the receipts of concurrent searches in one statement.

Used by `recall`; next is `receipt_store`.
"""

import asyncio
from dataclasses import dataclass, field

from choir_memory.search.receipt_store import MadeReceipt, ReceiptStore


@dataclass(slots=True)
class _Batch:
    made: list[MadeReceipt] = field(default_factory=list)
    kept: bool = False


class Receipts:
    """Batcher of receipts: those that arrive while a statement runs are stored together by the next one."""

    def __init__(self) -> None:
        self._open = _Batch()
        self._turn = asyncio.Lock()

    async def keep(self, store: ReceiptStore, made: MadeReceipt) -> None:
        """Store a receipt and return when that is done; raises the errors of `store`."""
        batch = self._open
        batch.made.append(made)
        async with self._turn:
            if batch is self._open:
                self._open = _Batch()
            # if the caller that stored the batch failed or was cancelled, the next waiter stores it
            if not batch.kept:
                await store.keep(batch.made)
                batch.kept = True

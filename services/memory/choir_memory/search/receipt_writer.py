"""Background writer of search receipts: a search does not wait until its own is stored.

Receipts are stored in the order of their searches, many in one statement. They stay in the queue while the
database is unavailable. `flush` stores all of them: before a receipt is read, and at shutdown.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import StatementError
from choir_memory.search.receipt_store import NewReceipt

log = structlog.get_logger("choir.memory.receipts")

LINGER_S = 0.05
"""Seconds to wait for more receipts before a statement; a crash of the service loses only these."""
MAX_BATCH = 256
"""Receipts per statement."""
MAX_PENDING = 2_000
"""Receipts in the queue, about 1 KB each; more searches than that are answered without a receipt."""
RETRY_S = 1.0
"""Seconds before a failed statement is repeated."""
CLOSE_TIMEOUT_S = 2.0
"""Seconds that shutdown waits for the last receipts to be stored."""


class ReceiptTable(Protocol):
    """Table of receipts; a receipt that is inserted again changes nothing."""

    async def insert(self, receipts: Sequence[NewReceipt]) -> None: ...


class ReceiptWriter:
    """Bounded queue of receipts, and the task that stores them; call `close` at shutdown."""

    def __init__(self, table: ReceiptTable) -> None:
        self._table = table
        self._pending: list[NewReceipt] = []
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def add(self, receipt: NewReceipt) -> bool:
        """Queue a receipt; return False if the queue is full."""
        if len(self._pending) >= MAX_PENDING:
            return False
        self._pending.append(receipt)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._store_pending())
        return True

    async def flush(self) -> None:
        """Store all receipts that are queued now; raises a ChoirError if the database is unavailable."""
        async with self._turn:
            remaining = len(self._pending)
            while remaining > 0:
                batch = self._pending[: min(remaining, MAX_BATCH)]
                await self._insert(batch)
                # only here, by the holder of the lock: a cancelled statement is repeated
                del self._pending[: len(batch)]
                remaining -= len(batch)

    async def close(self) -> None:
        """Store what is queued and end the task; what cannot be stored in time is lost and logged."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.flush()
        except (ChoirError, TimeoutError) as error:
            log.warning("search receipts lost", count=len(self._pending), error=str(error))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _store_pending(self) -> None:
        """Store receipts until none is queued."""
        while self._pending:
            await asyncio.sleep(LINGER_S)
            try:
                await self.flush()
            except ChoirError as error:
                log.warning("search receipts not stored; retrying", error=error.message)
                await asyncio.sleep(RETRY_S)

    async def _insert(self, batch: Sequence[NewReceipt]) -> None:
        try:
            await self._table.insert(batch)
        except StatementError as error:
            if len(batch) == 1:
                log.error("search receipt rejected by Postgres", error=str(error))
                return
            # one of them is rejected: the others are stored on their own
            for receipt in batch:
                await self._insert([receipt])

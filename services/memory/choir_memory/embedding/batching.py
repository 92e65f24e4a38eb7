"""Batch query texts that wait at the same time into one embedding call.

Used by `guard`; next is the embedder. A call to a provider costs this process more CPU than the vectors
in it: when the maximum of concurrent calls is reached, further queries wait and share the next call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from choir_common.errors import InvalidRequest
from choir_memory.embedding.embedder import BATCH_SIZE, Vector


@dataclass(slots=True)
class _PendingBatch:
    texts: list[str] = field(default_factory=list)
    vectors: Sequence[Vector] | None = None
    refused: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class QueryBatcher:
    """Batcher with at most `calls` concurrent calls of `embed`, each with all texts that are waiting
    by then."""

    def __init__(
        self, embed: Callable[[Sequence[str]], Awaitable[Sequence[Vector]]], calls: int
    ) -> None:
        self._embed = embed
        self._turns = asyncio.Semaphore(calls)
        self._next = _PendingBatch()

    async def embed(self, text: str) -> Vector:
        """Return the vector of a text; raises the errors of `embed`."""
        if len(self._next.texts) == BATCH_SIZE:
            self._next = _PendingBatch()
        call, at = self._next, len(self._next.texts)
        call.texts.append(text)
        async with call.turn:
            # if the caller that ran the batch failed or was cancelled, the next waiter runs it
            if call.vectors is None and not call.refused:
                await self._make(call)
        if call.vectors is not None:
            return call.vectors[at]
        # one text of the batch was rejected: embed each on its own, so that the others succeed
        async with self._turns:
            return (await self._embed([text]))[0]

    async def _make(self, call: _PendingBatch) -> None:
        async with self._turns:
            if call is self._next:
                self._next = _PendingBatch()
            try:
                call.vectors = await self._embed(call.texts)
            except InvalidRequest:
                if len(call.texts) == 1:
                    raise
                call.refused = True

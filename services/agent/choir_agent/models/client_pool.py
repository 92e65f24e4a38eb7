"""Pool of HTTP clients, one for each endpoint and key, limited to the most recently used.

Called by `openai_model`. The edge lane and core jobs alternate between models, and a key may change during
a call: a client in use is never closed, and a changed key applies to the next call.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

MAX_CLIENTS = 4


class CompletionClient(Protocol):
    """HTTP client for one endpoint with one key."""

    async def complete(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> bytes: ...

    async def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class _PooledClient:
    client: CompletionClient
    users: int = 0


class ClientPool:
    """The clients of this process."""

    def __init__(
        self,
        make: Callable[[str, str | None], Awaitable[CompletionClient]],
        kept: int = MAX_CLIENTS,
    ) -> None:
        self._make = make
        self._kept = kept
        # Ordered by last use.
        self._clients: dict[tuple[str, str | None], _PooledClient] = {}
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def borrow(self, endpoint: str, api_key: str | None) -> AsyncIterator[CompletionClient]:
        """Yield the client for an endpoint and key; it stays open for the duration of the context."""
        kept = await self._find(endpoint, api_key)
        kept.users += 1
        try:
            yield kept.client
        finally:
            kept.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        """Close all clients."""
        clients, self._clients = self._clients, {}
        for kept in clients.values():
            await kept.client.close()

    async def _find(self, endpoint: str, api_key: str | None) -> _PooledClient:
        wanted = (endpoint, api_key)
        async with self._making:
            kept = self._clients.pop(wanted, None)
            if kept is None:
                kept = _PooledClient(await self._make(endpoint, api_key))
            self._clients[wanted] = kept
        return kept

    async def _close_surplus(self) -> None:
        surplus = len(self._clients) - self._kept
        # Never close the last used client: it is the most likely to be used again.
        older = list(self._clients.items())[:-1]
        idle = [wanted for wanted, kept in older if kept.users == 0]
        # Remove before the first await: a concurrent caller then gets a new client, never one that is
        # closing.
        closing = [self._clients.pop(wanted) for wanted in idle[: max(0, surplus)]]
        for kept in closing:
            await kept.client.close()

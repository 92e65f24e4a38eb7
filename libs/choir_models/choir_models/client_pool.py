"""Pool of HTTP clients, one for each endpoint and key.

The edge lane and core jobs alternate between models, and a key may change during a call: a client in use is
never closed, and a changed key applies to the next call.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MAX_CLIENTS = 4


class Closable(Protocol):
    """A client with open connections."""

    async def close(self) -> None: ...


AnyClient = TypeVar("AnyClient", bound=Closable)
CreatedClient = TypeVar("CreatedClient", bound=Closable, covariant=True)


class ClientFactory(Protocol[CreatedClient]):
    """Factory of clients."""

    async def create(self, endpoint: str, api_key: str | None) -> CreatedClient: ...


@dataclass(slots=True, eq=False)
class _PooledClient(Generic[AnyClient]):
    client: AnyClient
    users: int = 0


class ClientPool(Generic[AnyClient]):
    """HTTP clients, one for each endpoint and key, limited to the most recently used."""

    def __init__(
        self,
        factory: ClientFactory[AnyClient],
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self._factory = factory
        self._max_clients = max_clients
        # Ordered by last use.
        self._clients: dict[tuple[str, str | None], _PooledClient[AnyClient]] = {}
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def borrow(self, endpoint: str, api_key: str | None) -> AsyncIterator[AnyClient]:
        """Yield the client for an endpoint and key; it stays open for the duration of the context."""
        pooled = await self._find(endpoint, api_key)
        pooled.users += 1
        try:
            yield pooled.client
        finally:
            pooled.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        """Close all clients."""
        clients, self._clients = self._clients, {}
        for pooled in clients.values():
            await pooled.client.close()

    async def _find(self, endpoint: str, api_key: str | None) -> _PooledClient[AnyClient]:
        key = (endpoint, api_key)
        async with self._making:
            pooled = self._clients.pop(key, None)
            if pooled is None:
                pooled = _PooledClient(await self._factory.create(endpoint, api_key))
            self._clients[key] = pooled
        return pooled

    async def _close_surplus(self) -> None:
        surplus = len(self._clients) - self._max_clients
        # Never close the last used client: it is the most likely to be used again.
        older = list(self._clients.items())[:-1]
        idle = [key for key, pooled in older if pooled.users == 0]
        # Remove before the first await: a concurrent caller then gets a new client, never one that is
        # closing.
        closing = [self._clients.pop(key) for key in idle[: max(0, surplus)]]
        for pooled in closing:
            await pooled.client.close()

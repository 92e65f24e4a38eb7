"""Clients of the few models in use are kept; one that works is never closed."""

import asyncio

from choir_models.client_pool import ClientPool


class Recorded:
    """A client that knows whether it was closed."""

    def __init__(self, endpoint: str, key: str | None) -> None:
        self.endpoint, self.key = endpoint, key
        self.closed = False

    async def complete(self, body: bytes, timeout_s: float) -> bytes:
        return body

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


class Maker:
    """Makes clients, slowly."""

    def __init__(self) -> None:
        self.made: list[Recorded] = []

    async def create(self, endpoint: str, key: str | None) -> Recorded:
        await asyncio.sleep(0)
        self.made.append(Recorded(endpoint, key))
        return self.made[-1]


async def test_edge_and_core_alternate_without_a_new_client() -> None:
    maker = Maker()
    clients = ClientPool(maker)

    async def call(endpoint: str) -> None:
        async with clients.borrow(endpoint, "k"):
            await asyncio.sleep(0)

    await asyncio.gather(*(call(f"http://{number % 2}") for number in range(20)))
    assert len(maker.made) == 2
    await clients.close()
    assert all(client.closed for client in maker.made)


async def test_the_client_used_longest_ago_is_closed_first() -> None:
    maker = Maker()
    clients = ClientPool(maker, max_clients=2)
    for endpoint in ("a", "b", "a", "c"):
        async with clients.borrow(endpoint, None):
            pass
    assert [(client.endpoint, client.closed) for client in maker.made] == [
        ("a", False),
        ("b", True),
        ("c", False),
    ]


async def test_a_changed_key_takes_the_next_call_and_the_running_one_goes_on() -> None:
    maker = Maker()
    clients = ClientPool(maker, max_clients=1)
    async with clients.borrow("a", "old") as old:
        async with clients.borrow("a", "new") as new:
            assert old is not new
        assert not maker.made[0].closed
        async with clients.borrow("a", "newer"):
            pass
        assert [client.closed for client in maker.made] == [False, True, False]
    assert [client.closed for client in maker.made] == [True, True, False]

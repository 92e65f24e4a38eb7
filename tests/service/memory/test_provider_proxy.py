"""Requests to the embedding provider go through the proxy that the environment names, if any."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from choir_memory.embedding.provider_client import ProviderClient
from tests.support.usage_fakes import make_reporter

BODY = b'{"data": [{"index": 0, "embedding": [1.0, 0.0]}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


@dataclass
class Server:
    """A server that answers every request with one vector, and records the request lines."""

    port: int = 0
    requests: list[str] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head.splitlines()[0])
        writer.write(ANSWER % (len(BODY), BODY))
        await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with await asyncio.start_server(made.answer, "127.0.0.1", 0) as listening:
        made.port = listening.sockets[0].getsockname()[1]
        yield made


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def embed(endpoint: str) -> None:
    client = ProviderClient(endpoint, None, timeout_s=5, usage=make_reporter())
    try:
        assert [list(one) for one in await client.embeddings("model", ["text"], None)] == [[1, 0]]
    finally:
        await client.close()


async def test_a_proxy_of_the_environment_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    await embed("http://provider.invalid/v1")
    assert server.requests == ["POST http://provider.invalid/v1/embeddings HTTP/1.1"]


async def test_an_address_without_a_proxy_is_connected_to(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    await embed(f"http://127.0.0.1:{server.port}/v1")
    assert server.requests == ["POST /v1/embeddings HTTP/1.1"]

"""An OpenAI-compatible embedding server over real HTTP that can be told to misbehave."""

import asyncio
import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Literal, Self

from choir_memory.embedding.provider import ProviderEmbedder

DIMENSIONS = 8
Mood = Literal["well", "rate_limited", "failing", "wrong_length", "garbage", "slow", "unauthorized"]


def vector_of(text: str) -> list[float]:
    """Return a unit vector: texts that share words point the same way."""
    sums = [0.01] * DIMENSIONS
    for word in text.lower().split():
        sums[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1.0
    length = math.sqrt(sum(value * value for value in sums))
    return [value / length for value in sums]


@dataclass
class ScriptedProvider:
    """The server; set `mood`, or stop and start it on the same port."""

    mood: Mood = "well"
    refused_word: str = "unspeakable"
    batches: list[list[str]] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def embedder(self, dimensions: int = DIMENSIONS) -> ProviderEmbedder:
        """Return the service's own adapter, pointed at this server."""
        return ProviderEmbedder(self.url, "embedding-key", "scripted", dimensions, 2.0)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            if hasattr(self._server, "close_clients"):
                self._server.close_clients()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            texts = json.loads(await reader.readexactly(length))["input"]
            self.batches.append(texts)
            status, body = await self._answer(texts)
            extra = "Retry-After: 0\r\n" if status == 429 else ""
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, texts: list[str]) -> tuple[int, bytes]:
        match self.mood:
            case "rate_limited":
                return 429, b'{"error": {"message": "slow down"}}'
            case "failing":
                return 500, b'{"error": {"message": "out of order"}}'
            case "unauthorized":
                return 401, b'{"error": {"message": "bad key"}}'
            case "garbage":
                return 200, b'{"data": "none"}'
            case "slow":
                await asyncio.sleep(1.5)
            case "well" | "wrong_length":
                pass
        if any(self.refused_word in text for text in texts):
            return 400, b'{"error": {"message": "refused"}}'
        cut = 3 if self.mood == "wrong_length" else DIMENSIONS
        data = [{"index": i, "embedding": vector_of(t)[:cut]} for i, t in enumerate(texts)]
        return 200, json.dumps({"object": "list", "data": data[::-1]}).encode()

"""An OpenAI-compatible embedding server over real HTTP that can be told to misbehave."""

import asyncio
import base64
import hashlib
import json
import math
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from choir_memory.embedding.provider import ProviderEmbedder
from tests.support.usage_fakes import make_reporter

DIMENSIONS = 8
Mood = Literal[
    "well",
    "rate_limited",
    "failing",
    "wrong_length",
    "garbage",
    "slow",
    "unauthorized",
    "huge",
    "zero",
    "refuses_all",
]


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a unit vector: texts that share words point the same way."""
    sums = [0.01] * dimensions
    for word in text.lower().split():
        sums[hashlib.sha256(word.encode()).digest()[0] % dimensions] += 1.0
    length = math.sqrt(sum(value * value for value in sums))
    return [value / length for value in sums]


@dataclass
class ScriptedProvider:
    """The server; set `mood`, or stop and start it on the same port."""

    mood: Mood = "well"
    refused_word: str = "unspeakable"
    batches: list[list[str]] = field(default_factory=list)
    retry_after: str = "0"
    knows_base64: bool = True
    native: int = DIMENSIONS
    """How long its vectors are unless a request says otherwise."""
    before_answer: Callable[[list[str]], Awaitable[None]] | None = None
    """What happens elsewhere while the provider thinks."""
    tokens: int = 0
    """What it charges for: the words of all answers."""
    port: int = 0
    _server: asyncio.Server | None = None
    _embedders: list[ProviderEmbedder] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for embedder in self._embedders:
            await embedder.close()
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def embedder(
        self, dimensions: int = DIMENSIONS, name: str = "scripted", timeout_s: float = 30.0
    ) -> ProviderEmbedder:
        """Return the service's own adapter, pointed at this server; it is closed with it."""
        made = ProviderEmbedder(
            usage=make_reporter(),
            endpoint=self.url,
            key="embedding-key",
            name=name,
            dimensions=dimensions,
            timeout_s=timeout_s,
        )
        self._embedders.append(made)
        return made

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
            asked = json.loads(await reader.readexactly(length))
            self.batches.append(asked["input"])
            if self.before_answer is not None:
                await self.before_answer(asked["input"])
            status, body = await self._answer(asked)
            extra = f"Retry-After: {self.retry_after}\r\n" if status == 429 else ""
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

    async def _answer(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        match self.mood:
            case "rate_limited":
                return 429, b'{"error": {"message": "slow down"}}'
            case "failing":
                return 500, b'{"error": {"message": "out of order"}}'
            case "unauthorized":
                return 401, b'{"error": {"message": "bad key"}}'
            case "garbage":
                return 200, b'{"data": "none"}'
            case "refuses_all":
                return 400, b'{"error": {"message": "refused"}}'
            case "slow":
                await asyncio.sleep(1.5)
            case "well" | "wrong_length" | "huge" | "zero":
                pass
        compact = asked.get("encoding_format") == "base64"
        if compact and not self.knows_base64:
            return 400, b'{"error": {"message": "encoding_format"}}'
        texts: list[str] = asked["input"]
        if any(self.refused_word in text for text in texts):
            return 400, b'{"error": {"message": "refused"}}'
        length = 3 if self.mood == "wrong_length" else asked.get("dimensions", self.native)
        scale = {"huge": 1e30, "zero": 0.0}.get(self.mood, 1.0)
        vectors = [[value * scale for value in vector_of(text, length)] for text in texts]
        data = [{"index": i, "embedding": _told(v, compact)} for i, v in enumerate(vectors)]
        used = sum(len(text.split()) for text in texts)
        self.tokens += used
        usage = {"prompt_tokens": used, "total_tokens": used}
        return 200, json.dumps({"object": "list", "data": data[::-1], "usage": usage}).encode()


def _told(vector: list[float], compact: bool) -> list[float] | str:
    if not compact:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

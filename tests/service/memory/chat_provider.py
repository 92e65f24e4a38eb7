"""An OpenAI-compatible chat server over real HTTP that says what it is told to say."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from choir_common.wire.config import ModelConfig

Say = Callable[[str, str], tuple[int, str]]
"""From instructions and material to an HTTP status and the words."""


@dataclass
class ChatProvider:
    """The server; `say` answers, `keys` are those it was shown."""

    say: Say
    keys: list[str] = field(default_factory=list)
    asked: list[dict[str, object]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request, names and values in lower case."""
    port: int = 0
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def settings(self) -> ModelConfig:
        """How config.json would describe it."""
        endpoint = f"http://127.0.0.1:{self.port}/v1"
        return ModelConfig(model="scripted", endpoint=endpoint, secret="k", timeout_ms=2_000)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = json.loads(await reader.readexactly(int(fields["content-length"])))
            assert head.startswith("POST /v1/chat/completions ")
            self.keys.append(fields["authorization"])
            self.asked.append(body)
            self.headers.append(fields)
            status, words = self.say(*(message["content"] for message in body["messages"]))
            message = {"role": "assistant", "content": words}
            told = {"choices": [{"index": 0, "message": message}]} if status == 200 else {}
            answer = json.dumps(told).encode() if words != "garbage" else b"<html>"
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(answer)}\r\nConnection: close\r\n\r\n".encode()
                + answer
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

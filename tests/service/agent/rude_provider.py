"""A model provider that misbehaves on the wire, in the way that the user's last word names.

A plain TCP server, because no HTTP server would do most of this. An unknown word gets a proper answer.
"""

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

Behaviour = Callable[["Request"], Awaitable[None]]
FINE = "fine"


@dataclass(frozen=True)
class Request:
    """What was asked, and the wire to answer on."""

    body: Mapping[str, object]
    authorization: str
    nth: int
    """How often this word was asked for, from 1."""
    writer: asyncio.StreamWriter

    @property
    def answered_calls(self) -> int:
        """How many tool results stand behind the user's last words."""
        messages = self.body["messages"]
        assert isinstance(messages, list)
        roles = [message["role"] for message in messages]
        last = len(roles) - 1 - roles[::-1].index("user")
        return roles[last:].count("tool")

    async def send(self, data: bytes) -> None:
        """Write bytes to the wire."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int, body: object, **headers: str) -> None:
        """Write an HTTP response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + data)

    async def say(self, text: object, finish: str = "stop", **message: object) -> None:
        """Answer as a model would."""
        await self.respond(200, completion({"content": text, **message}, finish))


def completion(message: object, finish: str = "stop", **others: object) -> dict[str, object]:
    """Return a chat completion."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    return {"choices": [choice], "model": "rude", "usage": usage, **others}


@dataclass
class RudeProvider:
    """The server's address, and what it was asked."""

    behaviours: Mapping[str, Behaviour]
    endpoint: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    authorizations: list[str] = field(default_factory=list)

    serving: set[asyncio.Task[None]] = field(default_factory=set)

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request as its word says, then close."""
        task = asyncio.create_task(self._serve(reader, writer))
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)

    async def close(self) -> None:
        """Break off what is still being answered."""
        for task in self.serving:
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        key = head.split("authorization:")[1].split("\r\n")[0].strip()
        self.authorizations.append(key)
        word = _last_words(body)
        self.asked[word] += 1
        behave = self.behaviours.get(word, _fine)
        await behave(Request(body, key, self.asked[word], writer))


async def _fine(request: Request) -> None:
    await request.say(FINE)


def _last_words(body: Mapping[str, object]) -> str:
    messages = body["messages"]
    assert isinstance(messages, list)
    said = [message["content"] for message in messages if message["role"] == "user"]
    if not said:
        return ""
    # a core job's briefing says behind its task when the job began
    words = re.sub(r"\n\nBegun: .*", "", str(said[-1]))
    return words.strip().splitlines()[-1]


@contextlib.asynccontextmanager
async def rude_provider(behaviours: Mapping[str, Behaviour]) -> AsyncIterator[RudeProvider]:
    """Serve on a free port while the block runs."""
    provider = RudeProvider(behaviours)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 20)
    provider.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()
        await provider.close()

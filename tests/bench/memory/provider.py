"""Fake OpenAI-compatible embedding provider with the corpus' vectors.

Run as `python -m tests.bench.memory.provider [PORT]`; prints its port. It is a minimal HTTP/1.1 server in a
separate process, so that its own cost does not distort the measurement.
"""

import asyncio
import sys
from base64 import b64encode
from typing import Any, cast

import orjson

from tests.bench.memory.corpus import Corpus, parse


class _Server(asyncio.Protocol):
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's has the interface, but not the base class
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._held) < end + 4 + length:
                return
            body = self._held[end + 4 : end + 4 + length]
            self._held = self._held[end + 4 + length :]
            self._transport.write(self._answer(orjson.loads(body)))

    def _answer(self, asked: dict[str, Any]) -> bytes:
        vectors = self._corpus.vectors([parse(text) for text in asked["input"]])
        compact = asked.get("encoding_format") == "base64"
        data = [
            {"index": at, "embedding": b64encode(one.tobytes()).decode() if compact else one}
            for at, one in enumerate(vectors)
        ]
        body = orjson.dumps({"object": "list", "data": data}, option=orjson.OPT_SERIALIZE_NUMPY)
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (len(body))
            + body
        )


async def _main() -> None:
    corpus = Corpus()
    corpus.vectors([parse("")])  # fills the caches before the first request
    loop = asyncio.get_running_loop()
    port = int(sys.argv[1]) if sys.argv[1:] else 0
    server = await loop.create_server(lambda: _Server(corpus), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())

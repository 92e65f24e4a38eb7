"""A model server whose streams the test writes: part by part, ended, cut, or refused."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from choir_common.http.listen import bind_tcp, serve

PATIENCE_S = 200.0
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass
class StreamedCall:
    """One request, and the stream that answers it."""

    body: dict[str, Any]
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed its connection before the end."""
    _parts: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    is_cut: bool = False

    def say(self, *texts: str) -> None:
        """Write each text as a delta."""
        for text in texts:
            self.write({"choices": [{"index": 0, "delta": {"content": text}}]})

    def write(self, chunk: object) -> None:
        """Write any chunk."""
        self._parts.put_nowait(b"data: " + orjson.dumps(chunk) + b"\n\n")

    def end(self, *texts: str) -> None:
        """Write the last texts and end the stream properly."""
        self.say(*texts)
        self.write({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.write({"choices": [], "usage": USAGE})
        self._parts.put_nowait(b"data: [DONE]\n\n")
        self._parts.put_nowait(None)

    def cut(self) -> None:
        """Close the connection in the middle."""
        self.is_cut = True
        self._parts.put_nowait(None)

    async def send(self, receive: Receive, send: Send) -> None:
        """Send the parts until the end, or until the client leaves."""
        headers = [(b"content-type", b"text/event-stream")]

        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.create_task(_disconnect(receive))
        try:
            while True:
                part = asyncio.create_task(self._parts.get())
                await asyncio.wait({part, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not part.done():
                    part.cancel()
                    self.left.set()
                    return
                data = part.result()
                if data is None and self.is_cut:
                    # uvicorn closes the connection of an application that fails
                    raise ConnectionAbortedError
                more = {"body": data or b"", "more_body": data is not None}
                await send({"type": "http.response.body", **more})
                if data is None:
                    return
        finally:
            leaving.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamingModel:
    """The server's address and its requests in order."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.calls: asyncio.Queue[StreamedCall] = asyncio.Queue()

    async def next_call(self) -> StreamedCall:
        """Wait for the next request."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.calls.get()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the test and send what it writes; there is nothing else here."""
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            # such as the question for the context length
            await Response(status_code=HTTPStatus.NOT_FOUND)(scope, receive, send)
        else:
            call = StreamedCall(orjson.loads(await Request(scope, receive).body()))
            self.calls.put_nowait(call)
            await call.send(receive, send)


@contextlib.asynccontextmanager
async def run_streaming() -> AsyncIterator[StreamingModel]:
    """Serve while the block runs."""
    model = StreamingModel()
    listener = bind_tcp("127.0.0.1", 0, "port")
    model.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    stop = asyncio.Event()
    server = asyncio.create_task(serve(model, [listener], stop))
    try:
        yield model
    finally:
        stop.set()
        await server

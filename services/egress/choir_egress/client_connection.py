"""One HTTP/1.1 exchange with a client of the proxy, parsed and written by h11."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import h11

from choir_common.egress.forwarding import ByteLimiter, Streams
from choir_common.egress.http_head import HttpHead
from choir_common.errors import InvalidRequest

CHUNK = 65_536


class ClientConnection:
    """The server's end of one request and its response; the connection is not reused."""

    def __init__(self, head: HttpHead, path: str, *, client: Streams, idle_s: float) -> None:
        """Begin with a head that was read already; `path` is what the server is asked for."""
        method, _, version = head.start
        self._reader, self._writer = client
        self._idle_s = idle_s
        self._is_read = asyncio.Event()
        self._protocol = h11.Connection(h11.SERVER)
        self._protocol.receive_data(head.render(f"{method} {path} {version}"))

    async def read_request(self) -> h11.Request:
        """Return the request without its body; raises InvalidRequest if it is malformed or ambiguous."""
        event = await self._next_event()
        if not isinstance(event, h11.Request):
            raise InvalidRequest("The request is incomplete.")
        return event

    async def read_body(self, meter: ByteLimiter) -> AsyncIterator[bytes]:
        """Yield the request's body to its end; raises InvalidRequest if it is malformed."""
        while isinstance(event := await self._next_event(), h11.Data):
            meter.consume(len(event.data))
            yield bytes(event.data)
        self._is_read.set()

    async def send(self, event: h11.Event) -> None:
        """Send a part of the response; raises OSError or TimeoutError if the client does not take it."""
        self._writer.write(self._protocol.send(event) or b"")
        async with asyncio.timeout(self._idle_s):
            await self._writer.drain()

    async def wait_until_left(self) -> None:
        """Wait until the client disconnects after its request."""
        await self._is_read.wait()
        with contextlib.suppress(OSError):
            while await self._reader.read(CHUNK):
                pass

    async def _next_event(self) -> object:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                if self._protocol.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                async with asyncio.timeout(self._idle_s):
                    self._protocol.receive_data(await self._reader.read(CHUNK))
        except h11.RemoteProtocolError as error:
            raise InvalidRequest(f"The request is not valid HTTP: {error}.") from error
        return event

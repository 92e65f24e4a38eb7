"""HTTP/1.1 transport over a Unix socket, at half the cost of the usual one.

An agent sends a heartbeat for almost every event, so this is most of its CPU time, and each message passes
from control to the gateway. The parser is httptools, as in uvicorn. A request is sent in one write with its
whole body, so files need the usual transport.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import httptools
import httpx2

CHUNK = 65_536
MAX_IDLE = 32
"""Idle connections that are reused; further requests at the same time open their own."""
# Control closes idle connections after 75 s; ours must not be used at the moment it closes them.
IDLE_S = 60.0
_HOP_BY_HOP = {b"connection", b"accept-encoding"}


class _ResponseParser:
    """Incremental state of a response; implements httptools' callbacks."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: deque[bytes] = deque()
        self.head_complete = False
        self.complete = False
        self.keep_alive = False
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        # An interim response (100 Continue) is followed by the real one.
        if self.parser.get_status_code() >= 200:
            self.head_complete = True
            # Read it here: at the end of the message the parser has reset it.
            self.keep_alive = self.parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.complete = self.head_complete


class _Connection:
    """One socket, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on this connection."""
        return not (self.reader.at_eof() or self._writer.is_closing())

    def write(self, data: bytes) -> None:
        """Send data; unsent bytes are buffered without a limit, which is fine for requests of our size."""
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()


class UnixTransport(httpx2.AsyncBaseTransport):
    """Connection pool of one client to one socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: deque[_Connection] = deque()
        """The connection that was released last is at the end, and used first."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the response as soon as its head has arrived."""
        timeouts = request.extensions.get("timeout", {})
        body = await request.aread()
        connection = self._take_idle() or await self._connect(request, timeouts.get("connect"))
        stream = _ResponseStream(
            self, connection, read_timeout_s=timeouts.get("read"), request=request
        )
        try:
            connection.write(_render(request, body))
            await stream.read_head()
        except BaseException:
            # Also on cancellation: a connection with a pending response must not be reused.
            connection.close()
            raise
        reading = stream.reading
        return httpx2.Response(
            reading.parser.get_status_code(), headers=reading.headers, stream=stream
        )

    async def aclose(self) -> None:
        """Close idle connections; a connection in use is closed by its response."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def release_connection(self, connection: _Connection) -> None:
        """Return a connection to the pool."""
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0].idle_since >= IDLE_S:
            self._idle.popleft().close()
        if connection.usable and len(self._idle) < MAX_IDLE:
            connection.idle_since = now
            self._idle.append(connection)
        else:
            connection.close()

    def _take_idle(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, request: httpx2.Request, timeout_s: float | None) -> _Connection:
        try:
            async with asyncio.timeout(timeout_s):
                return _Connection(*await asyncio.open_unix_connection(self._path))
        except TimeoutError as error:
            text = f"{self._path}: no connection within {timeout_s} s"
            raise httpx2.ConnectTimeout(text, request=request) from error
        except OSError as error:
            raise httpx2.ConnectError(f"{self._path}: {error}", request=request) from error


class _ResponseStream(httpx2.AsyncByteStream):
    """Body of a response; returns the connection to the pool at its end."""

    def __init__(
        self,
        transport: UnixTransport,
        connection: _Connection,
        *,
        read_timeout_s: float | None,
        request: httpx2.Request,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._read_timeout_s = read_timeout_s
        self._request = request
        self._open = True
        self.reading = _ResponseParser()

    async def read_head(self) -> None:
        """Read until the head is complete; raises the same errors as `_read_on`."""
        while not self.reading.head_complete:
            await self._read_on()

    async def _read_on(self) -> None:
        """Read and parse more data; raises httpx2.ReadTimeout, ReadError or RemoteProtocolError."""
        try:
            async with asyncio.timeout(self._read_timeout_s):
                data = await self._connection.reader.read(CHUNK)
        except TimeoutError as error:
            text = f"no data for {self._read_timeout_s} s"
            raise httpx2.ReadTimeout(text, request=self._request) from error
        except OSError as error:
            raise httpx2.ReadError(str(error), request=self._request) from error
        if not data:
            raise httpx2.RemoteProtocolError("the connection was closed", request=self._request)
        try:
            self.reading.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise httpx2.RemoteProtocolError(str(error), request=self._request) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self.reading.body:
                yield self.reading.body.popleft()
            if self.reading.complete:
                return
            await self._read_on()

    async def aclose(self) -> None:
        """Return the connection to the pool if the response was read completely, else close it."""
        if not self._open:
            return
        self._open = False
        if self.reading.complete and self.reading.keep_alive:
            self._transport.release_connection(self._connection)
        else:
            self._connection.close()


def _render(request: httpx2.Request, body: bytes) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [
        b"%s: %s" % (name, value)
        for name, value in request.headers.raw
        if name.lower() not in _HOP_BY_HOP
    ]
    return b"\r\n".join([*lines, b"", body])

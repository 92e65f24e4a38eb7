"""HTTP/1.1 transports over a Unix socket or TCP, at half the cost of the usual ones.

An agent sends a heartbeat for almost every event, and each step of a turn calls a model: these requests are
most of its CPU time. The parser is httptools, as in uvicorn. A request is sent in one write with its whole
body, so large files need the usual transport.
"""

import asyncio
import ssl
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator

import httptools
import httpx2

CHUNK = 65_536
MAX_IDLE = 32
"""Idle connections to one server that are reused; further requests at the same time open their own."""
# Control closes idle connections after 75 s; ours must not be used at the moment it closes them.
IDLE_S = 60.0
# The body is sent whole, with its length.
_NOT_SENT = {b"connection", b"transfer-encoding"}


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

    def end(self) -> None:
        """Take the end of the connection as that of the body, if the head does not say where it ends."""
        names = {name.lower() for name, _ in self.headers}
        has_end = bool(names & {b"content-length", b"transfer-encoding"})
        self.complete = self.head_complete and not (has_end or self.keep_alive)


Origin = tuple[str, bytes, int | None]
"""Scheme, host and port of a server."""


class _Connection:
    """One socket, for one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: Origin
    ) -> None:
        self.reader = reader
        self.origin = origin
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


class SocketTransport(httpx2.AsyncBaseTransport):
    """Connection pool of one client."""

    def __init__(self) -> None:
        self._idle: dict[Origin, deque[_Connection]] = {}
        """By server. The connection that was released last is at the end, and used first."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the response as soon as its head has arrived."""
        timeouts = request.extensions.get("timeout", {})
        rendered = self._render(request, await request.aread())
        url = request.url
        origin = url.scheme, url.raw_host, url.port
        connection = self._take_idle(origin)
        if connection is None:
            connection = await self._connect(request, origin, timeouts.get("connect"))
        stream = _ResponseStream(
            self, connection, read_timeout_s=timeouts.get("read"), request=request
        )
        try:
            connection.write(rendered)
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
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def release_connection(self, connection: _Connection) -> None:
        """Return a connection to the pool."""
        now = asyncio.get_running_loop().time()
        idle = self._idle.setdefault(connection.origin, deque())
        while idle and now - idle[0].idle_since >= IDLE_S:
            idle.popleft().close()
        if connection.usable and len(idle) < MAX_IDLE:
            connection.idle_since = now
            idle.append(connection)
        else:
            connection.close()

    def _take_idle(self, origin: Origin) -> _Connection | None:
        idle = self._idle.get(origin)
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    async def _connect(
        self, request: httpx2.Request, origin: Origin, timeout_s: float | None
    ) -> _Connection:
        try:
            async with asyncio.timeout(timeout_s):
                return _Connection(*await self._open(request.url), origin)
        except TimeoutError as error:
            text = f"{self._address(request.url)}: no connection within {timeout_s} s"
            raise httpx2.ConnectTimeout(text, request=request) from error
        except OSError as error:
            text = f"{self._address(request.url)}: {error}"
            raise httpx2.ConnectError(text, request=request) from error

    @abstractmethod
    async def _open(self, url: httpx2.URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection; raises OSError."""

    @abstractmethod
    def _address(self, url: httpx2.URL) -> str:
        """Return where connections go, for messages."""

    def _render(self, request: httpx2.Request, body: bytes) -> bytes:
        """Return the bytes of a request. The extension `target` replaces its path, as in httpx2."""
        target = request.extensions.get("target", request.url.raw_path)
        lines = [b"%s %s HTTP/1.1" % (request.method.encode(), target)]
        lines += [
            b"%s: %s" % (name, value)
            for name, value in request.headers.raw
            if name.lower() not in _NOT_SENT
        ]
        if "transfer-encoding" in request.headers:
            lines.append(b"Content-Length: %d" % len(body))
        # A value with a line break would add header fields, or another request.
        if any(b"\r" in line or b"\n" in line for line in lines):
            raise httpx2.LocalProtocolError("a header field has a line break", request=request)
        return b"\r\n".join([*lines, b"", body])


class UnixTransport(SocketTransport):
    """Connection pool of one client to one Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    async def _open(self, url: httpx2.URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._path)

    def _address(self, url: httpx2.URL) -> str:
        return self._path


class TcpTransport(SocketTransport):
    """Connection pool of one client that calls servers over HTTP or HTTPS, without a proxy."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` verifies the server of an HTTPS address."""
        super().__init__()
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])

    async def _open(self, url: httpx2.URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, is_tls = url.raw_host.decode("ascii"), url.scheme == "https"
        port = url.port or (443 if is_tls else 80)
        if is_tls:
            return await asyncio.open_connection(
                host, port, ssl=self._tls or True, server_hostname=host
            )
        return await asyncio.open_connection(host, port)

    def _address(self, url: httpx2.URL) -> str:
        return url.netloc.decode("ascii")


class _ResponseStream(httpx2.AsyncByteStream):
    """Body of a response; returns the connection to the pool at its end."""

    def __init__(
        self,
        transport: SocketTransport,
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
            self.reading.end()
            if self.reading.complete:
                return
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

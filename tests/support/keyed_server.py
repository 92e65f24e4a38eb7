"""An HTTPS server that wants a key and is strict about requests: the server behind a proxied key."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import h11

from tests.support.mail import make_certificate


@dataclass
class KeyedServer:
    """Answers each request by its path, and records heads and connections."""

    certificate: Path
    port: int = 0
    connections: int = 0
    requests: list[dict[str, str]] = field(default_factory=list)
    """Header fields of each request, with `:target` and `:body`."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """`/stream` sends its second half when this is set."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client disconnects in the middle of `/stream`."""

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def proxied_url(self) -> str:
        """Return the address that a client of the proxy uses."""
        return f"http://localhost:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = h11.Connection(h11.SERVER)
        with contextlib.suppress(OSError, h11.RemoteProtocolError):
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    data = await reader.read(65_536)
                    connection.receive_data(data)
                    if not data:
                        break
                elif isinstance(event, h11.Request):
                    names = [name for name, _ in event.headers]
                    assert len(set(names)) == len(names), event.headers
                    fields = {name.decode(): value.decode() for name, value in event.headers}
                    self.requests.append({**fields, ":target": event.target.decode(), ":body": ""})
                elif isinstance(event, h11.Data):
                    self.requests[-1][":body"] += event.data.decode()
                elif isinstance(event, h11.EndOfMessage):
                    await self._answer(connection, reader, writer)
                    connection.start_next_cycle()
                else:
                    break
        writer.close()

    async def _answer(
        self,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        request = self.requests[-1]
        status, headers, body = 200, {}, b"done"
        match request[":target"].partition("?")[0]:
            case "/echo":
                key = request.get("authorization", "")
                plain = base64.b64decode(key.removeprefix("Basic ")) if "Basic" in key else b""
                coded = base64.b64encode(key.encode()).decode()
                status, body = 400, f"{key} {coded} {plain.decode()} end".encode()
                headers = {"x-seen": key, "choir-egress": "forged"}
            case "/compressed":
                headers = {"content-encoding": "gzip"}
            case "/away":
                status, headers = 302, {"location": "https://example.invalid/taken"}
            case "/moved":
                status, headers = 301, {"location": f"{self.origin}/new"}
        if request[":target"] != "/stream":
            headers["content-length"] = str(len(body))
        pairs = list(headers.items())
        writer.write(connection.send(h11.Response(status_code=status, headers=pairs)) or b"")
        if request[":target"] == "/stream":
            writer.write(connection.send(h11.Data(data=b"data: first\n\n")) or b"")
            await writer.drain()
            await self._wait_for_more(reader)
            body = b"data: second\n\n"
        writer.write(connection.send(h11.Data(data=body)) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        await writer.drain()

    async def _wait_for_more(self, reader: asyncio.StreamReader) -> None:
        going_on = asyncio.create_task(self.go_on.wait())
        leaving = asyncio.create_task(reader.read(1))
        await asyncio.wait({going_on, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.left.set()
        going_on.cancel()
        leaving.cancel()
        await asyncio.gather(going_on, leaving, return_exceptions=True)


@contextlib.asynccontextmanager
async def running_keyed_server(root: Path) -> AsyncIterator[KeyedServer]:
    """Serve on a free port of loopback; the certificate is written below `root`."""
    certificate = make_certificate(root)
    keyed = KeyedServer(certificate.cert)
    context: ssl.SSLContext = certificate.server_context()
    server = await asyncio.start_server(keyed.serve, "127.0.0.1", 0, ssl=context)
    keyed.port = server.sockets[0].getsockname()[1]
    async with server:
        yield keyed

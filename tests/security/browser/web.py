"""A small web for the browser's tests: a site that may be visited, and traps that may not."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Answer:
    """What the site answers on a path."""

    body: bytes = b""
    status: str = "200 OK"
    headers: tuple[str, ...] = ("Content-Type: text/html; charset=utf-8",)
    delay_s: float = 0.0
    repeat: int = 1
    """How often the body is sent, one after the other."""
    pause_s: float = 0.0
    """Between one body and the next."""


def html(body: str, title: str = "A page") -> Answer:
    """Wrap a body into a page."""
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return Answer(text.encode())


def redirect(to: str, status: str = "302 Found") -> Answer:
    """Send the visitor elsewhere."""
    return Answer(b"", status, (f"Location: {to}",))


@dataclass
class Site:
    """An HTTP server with scripted paths; the guard is told to let it pass."""

    port: int = 0
    paths: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    """Bytes of bodies that were taken off our hands."""
    visits: "set[asyncio.Task[None] | None]" = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits.add(asyncio.current_task())
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the visitor left, or the test ends
        finally:
            self.visits.discard(asyncio.current_task())
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ")[1]
        self.requests.append(head)
        answer = self.paths.get(path.partition("?")[0], Answer(b"no such page", "404 Not Found"))
        await asyncio.sleep(answer.delay_s)
        lines = (f"HTTP/1.1 {answer.status}", *answer.headers)
        writer.write("\r\n".join((*lines, *_fixed(answer, head), "", "")).encode())
        for _ in range(answer.repeat):
            writer.write(answer.body)
            await writer.drain()
            self.sent += len(answer.body)
            await asyncio.sleep(answer.pause_s)


def _fixed(answer: Answer, head: str) -> tuple[str, ...]:
    if not answer.status.startswith("101"):
        return (f"Content-Length: {len(answer.body) * answer.repeat}", "Connection: close")
    key = next(line for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
    given = key.partition(":")[2].strip() + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accepted = base64.b64encode(hashlib.sha1(given.encode()).digest()).decode()
    return ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accepted}")


@dataclass
class Trap:
    """A port, TCP and UDP, that nobody may ever reach; counts who does."""

    port: int = 0
    hits: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append(f"tcp from {writer.get_extra_info('peername')}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nSECRET")
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()


class _UdpTrap(asyncio.DatagramProtocol):
    def __init__(self, trap: Trap) -> None:
        self._trap = trap

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._trap.hits.append(f"udp from {addr}")


@contextlib.asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    """Run a site on a free port."""
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        open_visits = [visit for visit in site.visits if visit is not None]
        for visit in open_visits:
            visit.cancel()
        await asyncio.gather(*open_visits, return_exceptions=True)


@contextlib.asynccontextmanager
async def open_trap() -> AsyncIterator[Trap]:
    """Set a trap on every address of this machine, both families where there are two."""
    trap = Trap()
    servers = [await asyncio.start_server(trap.serve, "0.0.0.0", 0)]
    trap.port = servers[0].sockets[0].getsockname()[1]
    with contextlib.suppress(OSError):
        servers.append(await asyncio.start_server(trap.serve, "::1", trap.port))
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(
        lambda: _UdpTrap(trap), local_addr=("127.0.0.1", trap.port)
    )
    try:
        yield trap
    finally:
        udp.close()
        for server in servers:
            server.close()

"""Forward bytes between a client and a server, with a size limit, an idle timeout and a byte count.

Called by a proxy once the address is checked and dialled.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Protocol

from choir_common.egress.http_head import HttpHead, InvalidHead, read_head

CHUNK = 65_536

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ByteLimiter(Protocol):
    """Counter of forwarded bytes, which may end the transfer."""

    def consume(self, count: int) -> bool:
        """Count bytes; return False if no more may follow."""
        ...


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards one connection of a client to one server."""

    up: ByteLimiter
    """Counts bytes to the server."""
    down: ByteLimiter
    """Counts bytes to the client."""
    max_bytes: int
    """Limit of bytes in each direction."""
    idle_s: float
    """Seconds without a byte after which the connection ends."""

    async def forward(self, head: HttpHead, path: str, client: Streams, upstream: Streams) -> None:
        """Forward a CONNECT tunnel, or one request and its response.

        Raises InvalidHead, OSError, TimeoutError, ValueError or IncompleteReadError if a peer breaks off.
        """
        method, _, version = head.start
        if method == "CONNECT":
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._forward_tunnel(client, upstream)
            return
        request_head = head.render(f"{method} {path} {version}")
        upstream[1].write(request_head)
        self.up.consume(len(request_head))
        await self._forward_request_body(head, client[0], upstream[1])
        await upstream[1].drain()
        await self._forward_response(client, upstream[0])

    async def _copy(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        limit: int,
        meter: ByteLimiter,
    ) -> None:
        """Copy up to `limit` bytes until the source ends, is silent too long, or the meter is used up."""
        with contextlib.suppress(OSError, TimeoutError):
            while limit > 0:
                async with asyncio.timeout(self.idle_s):
                    data = await source.read(min(CHUNK, limit))
                if not data:
                    break
                limit -= len(data)
                sink.write(data)
                if not meter.consume(len(data)):
                    break
                async with asyncio.timeout(self.idle_s):
                    await sink.drain()

    async def _forward_tunnel(self, client: Streams, upstream: Streams) -> None:
        """Connect two connections until either side ends."""
        up = asyncio.create_task(self._send_up(client[0], upstream[1]))
        down = asyncio.create_task(self._copy(upstream[0], client[1], self.max_bytes, self.down))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done():  # a client that closes its write side may still wait for the response
                async with asyncio.timeout(self.idle_s):
                    await down
        except TimeoutError:
            return
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _send_up(self, client: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> None:
        await self._copy(client, upstream, self.max_bytes, self.up)
        if upstream.can_write_eof():  # the server learns that nothing follows
            with contextlib.suppress(OSError):
                upstream.write_eof()

    async def _forward_request_body(
        self, head: HttpHead, client: asyncio.StreamReader, upstream: asyncio.StreamWriter
    ) -> None:
        """Forward exactly the request's body and no byte after it.

        Bytes after it could be a request to another host, which was not checked.
        """
        length = head.get("content-length")
        if (head.get("transfer-encoding") or "").lower() == "chunked":
            await self._send_chunks(client, upstream)
        elif length is not None and length.isdigit():
            await self._copy(client, upstream, int(length), self.up)

    async def _send_chunks(
        self, client: asyncio.StreamReader, upstream: asyncio.StreamWriter
    ) -> None:
        while True:
            size_line = await client.readuntil(b"\r\n")
            size = int(size_line.split(b";")[0], 16)
            data = await client.readexactly(size + 2) if size else await _trailer(client)
            upstream.write(size_line + data)
            await upstream.drain()
            if not size or not self.up.consume(size):
                return

    async def _forward_response(self, client: Streams, upstream: asyncio.StreamReader) -> None:
        """Forward the response until it ends or the client disconnects.

        Otherwise a page that was left would keep its transfer, and the agent's allowance, in use.
        """
        response = asyncio.create_task(self._relay(upstream, client[1]))
        disconnect = asyncio.create_task(_until_left(client[0]))
        try:
            await asyncio.wait({response, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if response.done():
                response.result()
        finally:
            for task in (response, disconnect):
                task.cancel()
            await asyncio.gather(response, disconnect, return_exceptions=True)

    async def _relay(self, upstream: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Forward the response with `Connection: close`.

        Otherwise the client would send its next request, to any host, over the same connection.
        """
        while True:
            async with asyncio.timeout(self.idle_s):
                head = await read_head(upstream)
            if head is None:
                raise InvalidHead
            client.write(head.render(" ".join(head.start).rstrip()))
            if not head.start[1].startswith("1"):  # 1xx responses precede the final one
                break
        await client.drain()
        await self._copy(upstream, client, self.max_bytes, self.down)


async def _trailer(client: asyncio.StreamReader) -> bytes:
    lines = b""
    while True:
        line = await client.readuntil(b"\r\n")
        lines += line
        if line == b"\r\n":
            return lines


async def _until_left(client: asyncio.StreamReader) -> None:
    """Wait until the client disconnects; bytes it sends meanwhile belong to no request."""
    with contextlib.suppress(OSError):
        while await client.read(CHUNK):
            pass

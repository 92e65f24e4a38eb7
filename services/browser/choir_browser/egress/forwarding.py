"""Copy bytes between the browser and a server, with a size limit and an idle timeout.

Called by proxy.py once the address is checked and dialled.
"""

import asyncio
import contextlib

from choir_browser.egress.http_head import HttpHead, InvalidHead, read_head
from choir_browser.egress.traffic_limits import TrafficBucket

CHUNK = 65_536
# Enough for any page that is worth reading.
MAX_BYTES = 64_000_000
IDLE_TIMEOUT_S = 60.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def copy_bytes(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int, allowance: TrafficBucket
) -> None:
    """Copy up to `limit` bytes until the source ends, is silent for 60 s, or the allowance is used up."""
    with contextlib.suppress(OSError, TimeoutError):
        while limit > 0:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                data = await source.read(min(CHUNK, limit))
            if not data:
                break
            limit -= len(data)
            sink.write(data)
            if not allowance.consume(len(data)):
                break
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                await sink.drain()


async def forward_tunnel(client: Streams, upstream: Streams, allowance: TrafficBucket) -> None:
    """Connect two connections until either side ends."""
    up = asyncio.create_task(copy_bytes(client[0], upstream[1], MAX_BYTES, allowance))
    down = asyncio.create_task(copy_bytes(upstream[0], client[1], MAX_BYTES, allowance))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if up.done():  # a client that closes its write side may still wait for the response
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                await down
    except TimeoutError:
        return
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def forward_request_body(
    head: HttpHead,
    client: asyncio.StreamReader,
    upstream: asyncio.StreamWriter,
    allowance: TrafficBucket,
) -> None:
    """Forward exactly the request's body and no byte after it.

    Bytes after it could be a request to another host, which was not checked.
    """
    length = head.get("content-length")
    if (head.get("transfer-encoding") or "").lower() == "chunked":
        await _send_chunks(client, upstream, allowance)
    elif length is not None and length.isdigit():
        await copy_bytes(client, upstream, int(length), allowance)


async def _send_chunks(
    client: asyncio.StreamReader, upstream: asyncio.StreamWriter, allowance: TrafficBucket
) -> None:
    while True:
        size_line = await client.readuntil(b"\r\n")
        size = int(size_line.split(b";")[0], 16)
        data = await client.readexactly(size + 2) if size else await _trailer(client)
        upstream.write(size_line + data)
        await upstream.drain()
        if not size or not allowance.consume(size):
            return


async def _trailer(client: asyncio.StreamReader) -> bytes:
    lines = b""
    while True:
        line = await client.readuntil(b"\r\n")
        lines += line
        if line == b"\r\n":
            return lines


async def forward_response(
    client: Streams, upstream: asyncio.StreamReader, allowance: TrafficBucket
) -> None:
    """Forward the response until it ends or the browser disconnects.

    Otherwise a page that was left would keep its transfer, and the agent's allowance, in use.
    """
    response = asyncio.create_task(_relay(upstream, client[1], allowance))
    disconnect = asyncio.create_task(_until_left(client[0]))
    try:
        await asyncio.wait({response, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if response.done():
            response.result()
    finally:
        for task in (response, disconnect):
            task.cancel()
        await asyncio.gather(response, disconnect, return_exceptions=True)


async def _until_left(client: asyncio.StreamReader) -> None:
    """Wait until the browser disconnects; bytes it sends meanwhile belong to no request."""
    with contextlib.suppress(OSError):
        while await client.read(CHUNK):
            pass


async def _relay(
    upstream: asyncio.StreamReader, client: asyncio.StreamWriter, allowance: TrafficBucket
) -> None:
    """Forward the response with `Connection: close`.

    Otherwise the browser would send its next request, to any host, over the same connection.
    """
    while True:
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            head = await read_head(upstream)
        if head is None:
            raise InvalidHead
        client.write(head.render(" ".join(head.start).rstrip()))
        if not head.start[1].startswith("1"):  # 1xx responses precede the final one
            break
    await client.drain()
    await copy_bytes(upstream, client, MAX_BYTES, allowance)

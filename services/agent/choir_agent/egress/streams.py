"""Copying of bytes between a client and the egress proxy."""

import asyncio
import contextlib

CHUNK = 65_536
LINGER_S = 10.0
"""Wait for the rest of an answer after the client's end, where TLS cannot tell the proxy of it."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def copy_between(*, client: Streams, proxy: Streams) -> None:
    """Pass bytes in both directions until both have ended; the proxy limits the time."""
    up = asyncio.create_task(_copy(client[0], proxy[1]))
    down = asyncio.create_task(_copy(proxy[0], client[1]))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        can_tell = proxy[1].can_write_eof() or not up.done()
        await asyncio.wait({up, down}, timeout=None if can_tell else LINGER_S)
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        proxy[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()

"""Connections of clients that go on to the egress proxy, and the copying of their bytes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

MAX_CONNECTIONS = 256
CHUNK = 65_536
LINGER_S = 10.0
"""Wait for the rest of an answer after the client's end, where TLS cannot tell the proxy of it."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyConnections:
    """The connections of clients, at most `MAX_CONNECTIONS` at once; `connect` opens one to the proxy."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self._connect = connect
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on to its end. If the proxy does not answer, the client's connection ends."""
        task = asyncio.current_task()
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            # when the agent stops, asyncio would log a cancelled connection as an error
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                await copy_between(client=(reader, writer), proxy=await self._connect())
        finally:
            self._open.discard(task)
            writer.close()

    async def close(self) -> None:
        """End all of them."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


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

"""Proxy between choird and Postgres on a Unix socket: counts, delays and breaks round trips.

Used by the fault tests and the benchmark. It parses the client's messages, so that round trips are counted
exactly: each ends with a Sync message, or is a simple Query.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
PIECE = 65536
ROUND_TRIPS = (b"S", b"Q")


@dataclass
class PostgresProxy:
    """A running proxy; `delay_s` delays every response."""

    dsn: str
    """The address to use instead of the server's."""
    delay_s: float = 0.0
    round_trips: int = 0
    forwarding: asyncio.Event = field(default_factory=asyncio.Event)
    """While cleared, no response is forwarded, as on a half-open connection."""
    _pipes: set[asyncio.Task[None]] = field(default_factory=set)

    def break_connections(self) -> None:
        """Break every open connection."""
        for pipe in list(self._pipes):
            pipe.cancel()


@contextlib.asynccontextmanager
async def postgres_proxy(dsn: str) -> AsyncIterator[PostgresProxy]:
    """Listen in front of the server at `dsn`."""
    directory = Path(tempfile.mkdtemp(prefix="choir-pp-"))
    parts = urlsplit(dsn)
    behind = Path(parse_qs(parts.query)["host"][0]) / SOCKET
    proxy = PostgresProxy(f"{dsn.partition('?')[0]}?host={directory}")
    proxy.forwarding.set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        proxy._pipes.add(task)
        try:
            await _join(proxy, behind, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side disconnected, which tests cause on purpose
        finally:
            proxy._pipes.discard(task)
            writer.transport.abort()

    server = await asyncio.start_unix_server(accept, directory / SOCKET)
    try:
        yield proxy
    finally:
        server.close()
        pipes = list(proxy._pipes)
        proxy.break_connections()
        await asyncio.wait(pipes or [asyncio.create_task(asyncio.sleep(0))], timeout=2)
        shutil.rmtree(directory, ignore_errors=True)


async def _join(
    proxy: PostgresProxy, behind: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    server_reader, server_writer = await asyncio.open_unix_connection(behind)
    tasks = (
        asyncio.create_task(_forward(proxy, reader, server_writer)),
        asyncio.create_task(_back(proxy, server_reader, writer)),
    )
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # before waiting for the tasks: the test may end meanwhile
        server_writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    proxy: PostgresProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    # the startup message has no type byte; its length includes the length field
    length = await reader.readexactly(4)
    writer.write(length + await reader.readexactly(int.from_bytes(length) - 4))
    while True:
        head = await reader.readexactly(5)
        writer.write(head + await reader.readexactly(int.from_bytes(head[1:]) - 4))
        proxy.round_trips += head[:1] in ROUND_TRIPS
        await writer.drain()


async def _back(
    proxy: PostgresProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while piece := await reader.read(PIECE):
        if proxy.delay_s:
            await asyncio.sleep(proxy.delay_s)
        await proxy.forwarding.wait()
        writer.write(piece)
        await writer.drain()

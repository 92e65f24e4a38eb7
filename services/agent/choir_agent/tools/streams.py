"""Bounded pipes to and from a program: capture its output and feed its input.

Uses its own pipes because asyncio's process waits until its pipes are closed, and a background process may
keep them open.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from choir_common.escape_text import escape_hidden

# How long to keep reading after the program has ended while another process keeps its output open.
DRAIN_S = 0.2
MAX_STDERR_CHARS = 300


class StreamSink(asyncio.Protocol):
    """Receives a stream; setting `enough` makes the caller kill the program."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.enough = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the stream has ended."""
        self.closed.set()


class OutputCapture(StreamSink):
    """Keeps a stream's beginning and end; the middle of a long one is dropped and counted."""

    def __init__(self, keep_each_end: int) -> None:
        super().__init__()
        self._keep = keep_each_end
        self.start = bytearray()
        self.end = bytearray()
        self.size = 0

    def data_received(self, data: bytes) -> None:
        """Store the data that arrived."""
        self.size += len(data)
        room = self._keep - len(self.start)
        self.start += data[:room]
        self.end += data[room:]
        del self.end[: -self._keep]

    @property
    def missing(self) -> int:
        """Number of bytes that were dropped."""
        return self.size - len(self.start) - len(self.end)

    def text(self) -> str:
        """Return the captured text, with a note where bytes are missing."""
        if not self.missing:
            return bytes(self.start + self.end).decode("utf-8", "replace")
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self.start, self.end))
        return f"{head}\n… {self.missing} bytes left out …\n{tail}"


class StderrText(StreamSink):
    """The end of what a program writes to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._end = bytearray()

    def data_received(self, data: bytes) -> None:
        """Keep the end of the data that arrived."""
        self._end += data
        del self._end[: -4 * MAX_STDERR_CHARS]

    def text(self) -> str:
        """Return the last characters as one line without control characters."""
        text = " ".join(self._end.decode("utf-8", "replace").split())
        return escape_hidden(text[-MAX_STDERR_CHARS:], keep="")


@asynccontextmanager
async def output_pipe(sink: StreamSink) -> AsyncIterator[int]:
    """Yield the write end of a pipe that `sink` reads."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(write_end, True)
    with os.fdopen(read_end, "rb", buffering=0) as reader, os.fdopen(write_end, "wb") as writer:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: sink, reader)
        try:
            yield writer.fileno()
            writer.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await sink.closed.wait()
        finally:
            transport.close()


@asynccontextmanager
async def input_pipe(data: bytes | int | None) -> AsyncIterator[int]:
    """Yield a descriptor from which `data` can be read: bytes, an open file, or nothing."""
    if isinstance(data, int):
        yield data
        return
    if data is None:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield nothing
        finally:
            os.close(nothing)
        return
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(read_end, True)
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb", buffering=0) as writer:
        loop = asyncio.get_running_loop()
        transport, sink = await loop.connect_write_pipe(StreamSink, writer)
        try:
            transport.write(data)
            transport.write_eof()
            yield reader.fileno()
        finally:
            # Aborting a closed transport is an error.
            if not sink.closed.is_set():
                transport.abort()

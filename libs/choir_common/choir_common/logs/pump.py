"""Carry what a child writes from its pipe into a log: line by line, cleaned, stamped, and not too fast.

Used by whoever starts children: the embedded supervisor for services, control for agents. A child that
floods its log is read more slowly, and waits; nobody else does.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Self, cast

from choir_common.logs.file import LogFile
from choir_common.logs.line import LONGEST, shape

RATE = 2 * 1024 * 1024  # bytes a second that one child may write on and on
BURST = 8 * 1024 * 1024  # bytes at once: a long traceback, a start with debug logging

Clean = Callable[[str], str]
"""The redactor."""


class LineWriter:
    """Turns chunks of output into lines of a log."""

    def __init__(
        self, file: LogFile, source: str, clean: Clean, session: str | None = None
    ) -> None:
        self._file = file
        self._source = source
        self._session = session
        self._clean = clean
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Write the lines that `chunk` completes; one without an end is cut when it is too long."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        if len(rest) > LONGEST:
            lines.append(rest)
            rest = b""
        self._rest = rest
        self._write(lines)

    def finish(self) -> None:
        """Write what stands without an end."""
        rest, self._rest = self._rest, b""
        self._write([rest])

    def _write(self, lines: list[bytes]) -> None:
        shaped = b"".join(self._line(line) for line in lines)
        if shaped:
            self._file.write(shaped)

    def _line(self, line: bytes) -> bytes:
        cleaned = self._clean(line.decode(errors="replace")).encode()
        return shape(cleaned, self._source, self._session)


class Allowance:
    """How much may be read: a bucket that fills with time."""

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at = time.monotonic()

    def spend(self, size: int) -> float:
        """Take `size` bytes out; return how many seconds to wait before more is read."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - size
        self._at = now
        return max(0.0, -self._left / self._rate)


class Pump(asyncio.Protocol):
    """Reads one pipe until everybody who holds its other end has closed it."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._allowance = Allowance()
        self._transport: asyncio.ReadTransport | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def open(cls, writer: LineWriter) -> tuple[Self, int]:
        """Return a pump and the end of its pipe that the child writes to; close it once it has one."""
        read_end, write_end = os.pipe()
        pump = cls(writer)
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_read_pipe(lambda: pump, os.fdopen(read_end, "rb", 0))
        except BaseException:
            os.close(write_end)
            raise
        return pump, write_end

    async def settled(self, within_s: float) -> None:
        """Wait until all that was written stands in the file, `within_s` at most."""
        try:
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        except TimeoutError:
            return  # something the child started still holds the pipe; it is read on

    def close(self) -> None:
        """Stop reading; the pipe is closed."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to slow it down."""
        # uvloop's pipe transport is one in all but its class
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Write what came, and pause if it came too fast."""
        self._writer.feed(data)
        pause_s = self._allowance.spend(len(data))
        if pause_s and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(pause_s, self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        """Write the last words."""
        self._writer.finish()
        self._ended.set()

    def _go_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

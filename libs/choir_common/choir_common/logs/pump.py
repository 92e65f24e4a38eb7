"""Copying of a child process's output from a pipe to its log: by line, redacted, stamped, rate limited.

Used by the embedded supervisor for services and by control for agents. Output above the rate limit is read
more slowly, so only the child that floods its log is blocked.

One log line has timestamp, level, source, session, lane and message. Choir's programs write JSON already;
other output, such as Postgres' or a traceback, becomes the message of a line. The reader of the pipe sets
the source, so a child cannot forge it.
"""

import asyncio
import datetime
import os
import time
from typing import Self, cast

import orjson

from choir_common.logs.file import LogFile
from choir_common.redactor import Redactor

MAX_LINE_BYTES = 64 * 1024  # bytes of one line; a longer one is cut and marked
BYTES_PER_SECOND = 2 * 1024 * 1024  # bytes per second that one child may write continuously
BURST_BYTES = 8 * 1024 * 1024  # bytes: a long traceback, a start with debug logging
_CUT = " [cut]"
_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


def format_line(raw: bytes, source: str, session: str | None) -> bytes:
    """Return `raw` as one JSON line with a line end; empty for a blank line."""
    text = raw.strip()
    if not text:
        return b""
    fields = _parse(text)
    stamped: dict[str, object] = {
        "timestamp": fields.pop("timestamp", None) or _now(),
        "level": fields.pop("level", None) or "info",
        "source": source,
    }
    fields.pop("source", None)
    own_session = fields.pop("session", None)
    if session or own_session:
        stamped["session"] = session or own_session
    message = fields.pop("message", "")
    return orjson.dumps({**stamped, **fields, "message": message}, option=_OPTIONS)


def _parse(text: bytes) -> dict[str, object]:
    """Return the fields of a JSON object, or the text as `message`."""
    if text.startswith(b"{") and len(text) <= MAX_LINE_BYTES:
        try:
            value: object = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = None
        if isinstance(value, dict):
            return value
    message = text[:MAX_LINE_BYTES].decode(errors="replace")
    return {"message": message + (_CUT if len(text) > MAX_LINE_BYTES else "")}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")


class LineWriter:
    """Writer that splits chunks of output into log lines."""

    def __init__(
        self, file: LogFile, source: str, redactor: Redactor, *, session: str | None = None
    ) -> None:
        self._file = file
        self._source = source
        self._session = session
        self._redactor = redactor
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Write the lines that `chunk` completes; an unfinished line that is too long is cut."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines.append(rest)
            rest = b""
        self._rest = rest
        self._write(lines)

    def finish(self) -> None:
        """Write the last, unfinished line."""
        rest, self._rest = self._rest, b""
        self._write([rest])

    def _write(self, lines: list[bytes]) -> None:
        formatted = b"".join(self._line(line) for line in lines)
        if formatted:
            self._file.write(formatted)

    def _line(self, line: bytes) -> bytes:
        cleaned = self._redactor.redact(line.decode(errors="replace")).encode()
        return format_line(cleaned, self._source, self._session)


class TokenBucket:
    """Token bucket in bytes, for the read rate."""

    def __init__(self, rate: float = BYTES_PER_SECOND, burst: float = BURST_BYTES) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = time.monotonic()

    def spend(self, size: int) -> float:
        """Take `size` bytes; return the seconds to wait before the next read."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - size
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class PipeReader(asyncio.Protocol):
    """Reader of one pipe until all copies of its write end are closed."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._allowance = TokenBucket()
        self._transport: asyncio.ReadTransport | None = None
        self._eof = asyncio.Event()

    @classmethod
    async def open(cls, writer: LineWriter) -> tuple[Self, int]:
        """Return a pump and the write end of its pipe; close that after the child has inherited it."""
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
        """Wait until all output is in the file, for at most `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s):
                await self._eof.wait()
        except TimeoutError:
            return  # a process the child started still has the pipe open; reading continues

    def close(self) -> None:
        """Stop reading; the pipe is closed."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, which is needed to pause reading."""
        # uvloop's pipe transport has the interface, but not the base class.
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Write the chunk, and pause reading above the rate limit."""
        self._writer.feed(data)
        pause_s = self._allowance.spend(len(data))
        if pause_s and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(pause_s, self._resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """Write the unfinished line."""
        self._writer.finish()
        self._eof.set()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

"""Progress that an MCP server reports of a running call, and the call's deadline, which it extends.

The protocol lets progress extend a deadline, and asks for a limit that it cannot extend.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from choir_common.escape_text import escape_hidden
from choir_common.wire.mcp_config import MAX_TOOL_TIMEOUT_MS

LONGEST_FACTOR = 5
"""A call with progress may take this number of times its timeout."""
MAX_MESSAGE_CHARS = 120
MAX_PAUSE_S = 1_900.0
"""Seconds of a call in which people and models answer the server, in all; people have 30 minutes."""


def longest_s(timeout_s: float) -> float:
    """Return the seconds after which a call ends although the server reports progress."""
    return min(LONGEST_FACTOR * timeout_s, MAX_TOOL_TIMEOUT_MS / 1000)


class CallProgress:
    """Progress of one call."""

    def __init__(self, tool: str, on_change: Callable[[], None]) -> None:
        self._tool, self._on_change = tool, on_change
        self._last: float | None = None
        self._deadline: asyncio.Timeout | None = None
        self._timeout_s, self._end = 0.0, 0.0
        self._pause_count, self._pause_began, self._pause_s = 0, 0.0, 0.0
        self.text = ""
        """What the server reported last, for people; without invisible characters."""

    @asynccontextmanager
    async def limit(self, timeout_s: float) -> AsyncIterator[None]:
        """Raise TimeoutError `timeout_s` after the last progress, at the latest after `longest_s`."""
        self._timeout_s = timeout_s
        self._end = asyncio.get_running_loop().time() + longest_s(timeout_s)
        try:
            async with asyncio.timeout(timeout_s) as self._deadline:
                yield
        finally:
            self._deadline = None

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """Stop the deadline while Choir answers a request of the server, as long as `pause_left_s` says."""
        loop = asyncio.get_running_loop()
        if self._pause_count == 0:
            self._pause_began = loop.time()
            self._move_deadline(None)
        self._pause_count += 1
        try:
            yield
        finally:
            self._pause_count -= 1
            if self._pause_count == 0:
                pause_s = loop.time() - self._pause_began
                self._pause_s += pause_s
                self._end += pause_s
                self._move_deadline(min(self._end, loop.time() + self._timeout_s))

    def pause_left_s(self) -> float:
        """Return the seconds that Choir may still take for the server's requests in this call."""
        current_s = 0.0
        if self._pause_count:
            current_s = asyncio.get_running_loop().time() - self._pause_began
        return max(0.0, MAX_PAUSE_S - self._pause_s - current_s)

    def _move_deadline(self, when: float | None) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(when)

    async def record(self, progress: float, total: float | None, message: str | None) -> None:
        """Note a report of the server; only a larger number than the last extends the deadline."""
        if self._last is not None and not progress > self._last:
            return
        self._last = progress
        if self._pause_count == 0:
            now = asyncio.get_running_loop().time()
            self._move_deadline(min(self._end, now + self._timeout_s))
        text = progress_text(self._tool, progress, total, message)
        if text != self.text:
            self.text = text
            self._on_change()


def progress_text(tool: str, progress: float, total: float | None, message: str | None) -> str:
    """Return a line for people, such as `index: 3 of 10, reading files`."""
    amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    words = " ".join((message or "").split())[:MAX_MESSAGE_CHARS]
    text = f"{tool}: {amount}, {words}" if words else f"{tool}: {amount}"
    return escape_hidden(text, keep="")

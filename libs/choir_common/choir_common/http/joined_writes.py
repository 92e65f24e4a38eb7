"""Transport that sends everything written in one step of the event loop with one system call.

uvicorn writes the head and the body of a response separately. Sent separately they would also wake the reader
twice, which takes longer than the write itself.
"""

import asyncio
from typing import Any

MAX_PENDING_BYTES = 65_536
"""More than this is sent at once, so that the flow control of the connection sees it."""


class JoinedWrites(asyncio.Transport):
    """A wrapper of a transport, with the methods that uvicorn calls to send a response."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def write(self, data: Any) -> None:
        """Send data at the end of this step of the event loop."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes > MAX_PENDING_BYTES:
            self._flush()

    def close(self) -> None:
        """Close the connection after the written data was sent."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending and not self._transport.is_closing():
            self._transport.write(b"".join(pending))

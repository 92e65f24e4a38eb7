"""A connection to a service without an HTTP library in between: slow, endless, or no HTTP at all (row S2).

It reads from the socket itself: an asyncio stream whose write met a closed connection no longer returns the
answer that arrived before.
"""

import asyncio
import contextlib
import socket
from pathlib import Path

from choir_common.http.middleware import BODY_TIMEOUT_S

BLOCK = 65_536


class Raw:
    """Opened by `async with` to a loopback port or a Unix socket."""

    def __init__(self, place: int | Path) -> None:
        self._place = place

    async def __aenter__(self) -> "Raw":
        is_port = isinstance(self._place, int)
        self._socket = socket.socket(socket.AF_INET if is_port else socket.AF_UNIX)
        self._socket.setblocking(False)
        address = ("127.0.0.1", self._place) if is_port else str(self._place)
        await asyncio.get_running_loop().sock_connect(self._socket, address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises ConnectionError if the other side has closed the connection."""
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def status(self, within: float = 60) -> int:
        """Return the status of the answer. Raises ConnectionError or IndexError if there is none."""
        async with asyncio.timeout(within):
            line = b""
            while b"\n" not in line and (block := await self._receive()):
                line += block
            return int(line.split()[1])

    async def answer(self, within: float = 60) -> bytes:
        """Return all that is received until the other side closes the connection."""
        async with asyncio.timeout(within):
            received = b""
            with contextlib.suppress(ConnectionError):
                while block := await self._receive():
                    received += block
            return received

    async def drip(self, piece: bytes, every_s: float) -> int:
        """Send `piece` again and again until an answer is there; return its status."""

        async def send() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    await self.send(piece)
                    await asyncio.sleep(every_s)

        sending = asyncio.create_task(send())
        try:
            return await self.status(BODY_TIMEOUT_S + 10)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def pour(self, head: bytes, chunk: bytes, within: float = 30) -> int:
        """Send a head and endless chunks until the other side hangs up; return the status it gave."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(within):
                await self.send(head)
                while True:
                    await self.send(chunk)
                    await asyncio.sleep(0.02)
        return await self.status(within + 30)

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, BLOCK)

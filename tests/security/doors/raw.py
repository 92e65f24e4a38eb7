"""A connection to a service without an HTTP library in between: slow, endless, or no HTTP at all (row S2)."""

import asyncio
import contextlib
from pathlib import Path

from choir_common.http.service_app import BODY_TIMEOUT_S


class Raw:
    """Opened by `async with` to a loopback port or a Unix socket."""

    def __init__(self, place: int | Path) -> None:
        self._place = place

    async def __aenter__(self) -> "Raw":
        opening = (
            asyncio.open_connection("127.0.0.1", self._place)
            if isinstance(self._place, int)
            else asyncio.open_unix_connection(self._place)
        )
        self.reader, self.writer = await opening
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def status(self, within: float = 60) -> int:
        """Return the status of the answer."""
        async with asyncio.timeout(within):
            return int((await self.reader.readline()).split()[1])

    async def drip(self, piece: bytes, every_s: float) -> int:
        """Send `piece` again and again until an answer is there; return its status."""

        async def send() -> None:
            while True:
                self.writer.write(piece)
                await self.writer.drain()
                await asyncio.sleep(every_s)

        sending = asyncio.create_task(send())
        try:
            return await self.status(BODY_TIMEOUT_S + 10)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def pour(self, head: bytes, chunk: bytes, within: float = 30) -> int:
        """Send a head and endless chunks until the other side hangs up; return the status it gave."""
        self.writer.write(head)
        listening = asyncio.create_task(self.status(within + 30))
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(within):
                while True:
                    self.writer.write(chunk)
                    await self.writer.drain()
                    await asyncio.sleep(0.02)
        return await listening

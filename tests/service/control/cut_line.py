"""A line to choird that can be cut half: what an agent sends waits, and arrives when it is whole again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class CutLine:
    """A proxy between a loopback port and choird's."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._whole = asyncio.Event()
        self._whole.set()
        self._work: set[asyncio.Task[None]] = set()
        self.port = 0

    def cut(self) -> None:
        """Hold back all that comes from the agent; its connections stay open."""
        self._whole.clear()

    def mend(self) -> None:
        """Let through what was held back."""
        self._whole.set()

    async def _serve(self, agent: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work.add(task)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(
                self._carry(agent, writer, True), self._carry(reader, answer, False)
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, answer):
                each.close()

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, may_be_cut: bool
    ) -> None:
        while data := await source.read(65_536):
            if may_be_cut:
                await self._whole.wait()
            sink.write(data)
            await sink.drain()
        sink.close()


@contextlib.asynccontextmanager
async def cut_line(target_port: int) -> AsyncIterator[CutLine]:
    """Open a line to a loopback port."""
    line = CutLine(target_port)
    server = await asyncio.start_server(line._serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        for task in line._work:
            task.cancel()
        await asyncio.gather(*line._work, return_exceptions=True)

"""Base class of embedded servers, which also run without a supervisor; shared by Postgres and NATS.

`database.connection` and tests start servers directly; the supervisor uses `prepare_command`.
"""

import signal
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from choir_local.child_log import ChildLog
from choir_local.launch import Command, launch, stop_child, wait_ready


class EmbeddedServer(ABC):
    """A server that runs as a child of the supervisor, or of the caller of `start`."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    ready_within: ClassVar[timedelta]
    stop_within: ClassVar[timedelta]

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: Process | None = None

    @abstractmethod
    async def prepare(self) -> None:
        """Create what the server needs. Raises StartupError, with nothing changed, if it cannot start."""

    @abstractmethod
    def command(self) -> Command:
        """Return the command to start; call `prepare` first."""

    @abstractmethod
    async def is_ready(self, pid: int) -> bool:
        """Return whether the server with this pid is ready."""

    async def prepare_command(self) -> Command:
        """Prepare the server and return the command to start. Raises StartupError."""
        await self.prepare()
        return self.command()

    async def is_alive(self, pid: int) -> bool:
        """Return whether the running server with this pid still answers."""
        return await self.is_ready(pid)

    @property
    def pid(self) -> int | None:
        """Return the pid of the server that `start` started."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Prepare and start the server, and wait until it is ready.

        Raises StartupError with the server's last output.
        """
        await self.prepare()
        log = ChildLog(self._log)
        process = await launch(self.command(), log)
        self._process = process
        try:
            await wait_ready(self.name, process, self, self.ready_within, log)
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> int:
        """Wait until the server that `start` started has ended; return its exit code."""
        if self._process is None:
            raise RuntimeError("call start() before wait()")
        return await self._process.wait()

    async def stop(self) -> None:
        """Shut down; kill the server if that takes too long, which loses no acknowledged data."""
        process, self._process = self._process, None
        if process is not None:
            await stop_child(process, self.stop_signal, self.stop_within)

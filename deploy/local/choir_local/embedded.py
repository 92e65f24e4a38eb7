"""Run a server without a supervisor: start, wait until it serves, stop. What `postgres` and `nats` share.

Called by `database.reach`, and by tests; the supervisor asks the same servers for `prepare` and `command`.
"""

import signal
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from choir_local.child_log import ChildLog
from choir_local.launch import Command, launch
from choir_local.running import await_ready, end


class EmbeddedServer(ABC):
    """A server that is a child: of a supervisor, or of who calls `start`."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    ready_within: ClassVar[timedelta]
    stop_within: ClassVar[timedelta]

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: Process | None = None

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the server needs. Raises StartupError, having touched nothing, if it cannot start."""

    @abstractmethod
    def command(self) -> Command:
        """Return what to start; only after `prepare`."""

    @abstractmethod
    async def is_ready(self, pid: int) -> bool:
        """Tell whether the server with this pid serves."""

    @property
    def pid(self) -> int | None:
        """Return the pid of the server that `start` started."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Prepare, start and wait until it serves.

        Raises StartupError with what the server said.
        """
        await self.prepare()
        log = ChildLog(self._log)
        process = await launch(self.command(), log)
        self._process = process
        try:
            await await_ready(self.name, process, self.is_ready, self.ready_within, log)
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> int:
        """Wait until the server that `start` started has ended; return its exit code."""
        if self._process is None:
            raise RuntimeError("start() comes before wait()")
        return await self._process.wait()

    async def stop(self) -> None:
        """Shut down; killed if that takes too long, and what it acknowledged is safe all the same."""
        process, self._process = self._process, None
        if process is not None:
            await end(process, self.stop_signal, self.stop_within)

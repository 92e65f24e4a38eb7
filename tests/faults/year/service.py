"""The memory service with a driven clock, maintenance on request, and a crash at a chosen line.

Run as `python -m tests.faults.year.service`. The product needs no hooks: this module replaces the clock and
the two timers of maintenance, and adds endpoints. The file that `CHOIR_TEST_CLOCK` names contains the time.
"""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import choir_memory.app
from choir_common.bus.client import Endpoint
from choir_common.http.listen import bind_unix, stop_on_signals
from choir_common.redactor import Redactor
from choir_common.service import run_service
from choir_common.wire.messages import Empty
from choir_common.wire.model import WireModel
from choir_memory.app import MemoryService
from choir_memory.maintenance.learning import LearningScheduler
from choir_memory.maintenance.tasks import MaintenanceScheduler
from choir_memory.settings import MemorySecrets, MemorySettings

MAINTAIN = "choir.memory.test.maintain"
CRASH = "choir.memory.test.crash"
PRODUCT = "/choir_memory/"
# pure code, in which no crash can leave anything half done
PURE = ("/text/", "/llm/", "/search/", "/sessions/units.py", "/sessions/trust.py")


class PassDone(WireModel):
    """How much a maintenance pass did."""

    done: int


class Crash(WireModel):
    """Kill the process at the `line`-th executed line from now on, or `delay_s` seconds after it."""

    line: int
    delay_s: float


class FileClock:
    """Wall time from a file that the test writes; monotonic time from the operating system."""

    def __init__(self) -> None:
        self._path = Path(os.environ["CHOIR_TEST_CLOCK"])

    def now(self) -> datetime:
        return datetime.fromisoformat(self._path.read_text())

    def monotonic(self) -> float:
        return time.monotonic()


class NoTimer:
    """A loop that never starts a pass by itself."""

    async def run(self) -> None:
        await asyncio.Event().wait()


@dataclass(frozen=True)
class Maintenance:
    """The passes of both loops, started by a request."""

    scheduler: MaintenanceScheduler
    learning: LearningScheduler

    async def run(self, _: Empty) -> PassDone:
        """Run one pass; errors reach the caller, unlike those of the loop."""
        tasks = await self.scheduler.tasks.create()
        done = 0
        for agent_id in await self.scheduler.spaces.list_agents():
            for task in tasks:
                done += await task.run_agent(agent_id)
        return PassDone(done=done + await self.learning.run_due())


class CrashInjector:
    """Counts the executed lines of the service and kills the process at one of them."""

    def __init__(self) -> None:
        self._lines_left = 0
        self._delay_s = 0.0

    async def arm(self, crash: Crash) -> Empty:
        """Start to count."""
        self._lines_left, self._delay_s = crash.line, crash.delay_s
        sys.settrace(self._trace)
        return Empty()

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if PRODUCT not in file or any(part in file for part in PURE):
            return None
        if event == "line":
            self._lines_left -= 1
            if self._lines_left == 0:
                self._crash(f"{file.rpartition(PRODUCT)[2]}:{frame.f_lineno}")
        return self._trace

    def _crash(self, place: str) -> None:
        print(f"killed at {place}", file=sys.stderr, flush=True)
        if self._delay_s:
            # by then a statement was probably sent and is being executed
            threading.Timer(self._delay_s, kill_this_process).start()
        else:
            kill_this_process()


def kill_this_process() -> None:
    """End the process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class YearService(MemoryService):
    """The memory service without timers for maintenance."""

    def __init__(self, settings: MemorySettings, secrets: MemorySecrets) -> None:
        super().__init__(settings, secrets)
        maintenance = Maintenance(self._scheduler, self._learning)
        self._scheduler = self._learning = NoTimer()  # type: ignore[assignment]
        self._endpoints = (
            *self._endpoints,
            Endpoint(MAINTAIN, Empty, maintenance.run),
            Endpoint(CRASH, Crash, CrashInjector().arm),
        )


async def serve(settings: MemorySettings, secrets: MemorySecrets, _redactor: Redactor) -> None:
    """Serve until SIGTERM."""
    sockets: list[socket.socket] = [bind_unix(settings.health_socket)]
    await YearService(settings, secrets).run(sockets, stop_on_signals())


def main() -> int:
    """Run the service; return the exit code."""
    choir_memory.app.SystemClock = FileClock  # type: ignore[misc,assignment]
    return run_service(
        serve,
        settings_type=MemorySettings,
        secrets_type=MemorySecrets,
        log_source="choir-memory",
        span_service="choir-memory",
    )


if __name__ == "__main__":
    sys.exit(main())

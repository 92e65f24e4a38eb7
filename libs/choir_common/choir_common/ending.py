"""End this process in time, whatever still hangs in it. Used by `http.listen` once a signal to stop has come.

All that matters is durable when it is acknowledged, so a process that is cut off loses no more than one that
is killed; one that never ends keeps its successor waiting.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Iterable

import structlog

log = structlog.get_logger("choir.ending")

EXIT_CODE = 70  # EX_SOFTWARE: it did not end by itself


class Deadline:
    """Ends the process some seconds after `start`, unless that has ended before; may be shortened."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: threading.Timer | None = None

    def start(self, within_s: float) -> None:
        """Set the time that is left; of several the last counts."""
        if self._timer is not None:
            self._timer.cancel()
        # A thread, because the loop itself may be what hangs.
        self._timer = threading.Timer(within_s, self._end, (within_s,))
        self._timer.daemon = True
        self._timer.start()

    def _end(self, within_s: float) -> None:
        tasks = sorted(_places(asyncio.all_tasks(self._loop)))
        log.error("did not end in time, and is ended now", within_s=within_s, waits_in=tasks)
        sys.stderr.flush()
        os._exit(EXIT_CODE)


def _places(tasks: Iterable[asyncio.Task[object]]) -> Iterable[str]:
    """Say where each task waits: its name, and the innermost line of its own code."""
    for task in tasks:
        frames = task.get_stack(limit=1)
        code = frames[-1].f_code if frames else None
        where = f"{code.co_filename}:{frames[-1].f_lineno}" if code else "nowhere"
        yield f"{task.get_name()} at {where}"

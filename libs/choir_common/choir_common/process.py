"""Outermost frame of a process: its exit code when it cannot start or fails, and a deadline for its shutdown.

Also preserves cancellations that a library swallows.

Everything that matters is durable before it is acknowledged, so a forced exit loses no more than a kill. A
process that never exits would block its successor.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator

import structlog

from choir_common.errors import StartupError
from choir_common.redactor import Redactor

log = structlog.get_logger("choir.ending")

FAILED = 1
"""Exit code of a process that an unexpected error ended."""
DEADLINE_PASSED = 70
"""EX_SOFTWARE: exit code of a process whose shutdown deadline passed."""


def run_process(main: Callable[[Redactor], int]) -> int:
    """Run `main` with the process's redactor and return the exit code.

    A StartupError is printed to standard error, also when it is wrapped in an exception group. Any other
    error is logged, once logging is configured.
    """
    redactor = Redactor()
    try:
        return main(redactor)
    except Exception as error:
        startup_error = _find_startup_error(error)
        if startup_error is not None:
            sys.stderr.write(f"{redactor.redact(startup_error.message)}\n")
            return startup_error.exit_code
        if not structlog.is_configured():
            raise
        structlog.get_logger("choir.process").exception("the process failed")
        return FAILED


def _find_startup_error(error: Exception) -> StartupError | None:
    """Return the first StartupError in `error`; a task group wraps the error that stopped it."""
    if isinstance(error, StartupError):
        return error
    if isinstance(error, ExceptionGroup):
        for member in error.exceptions:
            startup_error = _find_startup_error(member)
            if startup_error is not None:
                return startup_error
    return None


class ShutdownDeadline:
    """Timer that terminates the process if it has not exited some seconds after `start`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: threading.Timer | None = None

    def start(self, within_s: float) -> None:
        """Set the remaining time in seconds; a later call replaces an earlier one."""
        if self._timer is not None:
            self._timer.cancel()
        # A thread, because the event loop itself may be blocked.
        self._timer = threading.Timer(within_s, self._end, (within_s,))
        self._timer.daemon = True
        self._timer.start()

    def _end(self, within_s: float) -> None:
        tasks = sorted(_places(asyncio.all_tasks(self._loop)))
        log.error("shutdown deadline passed, terminating", within_s=within_s, waits_in=tasks)
        sys.stderr.flush()
        os._exit(DEADLINE_PASSED)


def _places(tasks: Iterable[asyncio.Task[object]]) -> Iterable[str]:
    """Yield each task's name and the innermost source line where it is suspended."""
    for task in tasks:
        frames = task.get_stack(limit=1)
        code = frames[-1].f_code if frames else None
        where = f"{code.co_filename}:{frames[-1].f_lineno}" if code else "nowhere"
        yield f"{task.get_name()} at {where}"


@contextlib.contextmanager
def preserve_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end of the block if this task was cancelled during it.

    For calls of asyncpg and nats-py. Before Python 3.12 `asyncio.wait_for` drops a cancellation that arrives
    together with its result, and a connection that breaks at that time replaces the cancellation by its own
    error. A loop that retries after errors would then never end.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError

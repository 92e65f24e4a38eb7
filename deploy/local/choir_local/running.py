"""Readiness wait and stop of child processes. Used by `EmbeddedServer` and `Supervisor`."""

import asyncio
import signal
from asyncio.subprocess import Process
from datetime import timedelta
from typing import Protocol

from choir_common.errors import StartupError
from choir_local.child_log import ChildLog
from choir_local.log_tail import read_log_tail

POLL_FIRST_S = 0.005
POLL_MOST_S = 0.05


class ReadinessCheck(Protocol):
    """Check of a starting child; called repeatedly."""

    async def is_ready(self, pid: int) -> bool:
        """Return whether the child with this pid is ready."""


async def wait_ready(
    name: str, process: Process, check: ReadinessCheck, within: timedelta, log: ChildLog
) -> None:
    """Return when `check` reports that the child is ready.

    Raises StartupError with the end of `log` if the child ends first or `within` has passed.
    """
    pause = POLL_FIRST_S
    try:
        async with asyncio.timeout(within.total_seconds()):
            while not await check.is_ready(process.pid):
                if process.returncode is not None:
                    await log.wait_complete()
                    raise StartupError(
                        f"{name} ended with code {process.returncode} before it was ready. "
                        f"It said: {read_log_tail(log.path) or 'nothing'} (log: {log.path})"
                    )
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, POLL_MOST_S)
    except TimeoutError as error:
        raise StartupError(
            f"{name} was not ready within {within.total_seconds():g} s. "
            f"It said last: {read_log_tail(log.path) or 'nothing'} (log: {log.path})"
        ) from error


async def stop_child(process: Process, stop_signal: signal.Signals, within: timedelta) -> None:
    """Send the stop signal; kill the child if it takes longer than `within`."""
    if process.returncode is None:
        process.send_signal(stop_signal)
    try:
        async with asyncio.timeout(within.total_seconds()):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

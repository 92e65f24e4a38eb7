"""Deadlines of `make demo`: a recording that does not go on ends with the step, its time and what to do."""

import asyncio
import contextlib
import faulthandler
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine

from playwright.async_api import Error

STEP_S = 300.0
"""A part of a recording takes up to a minute on an idle machine."""
RECORDING_S = 1_500.0
"""The whole, with the start of the stack and its end, which no deadline of asyncio can cut off."""


class RecordingError(Exception):
    """A part of a recording failed."""


@contextlib.asynccontextmanager
async def step(name: str, within_s: float = STEP_S) -> AsyncIterator[None]:
    """Say on standard error what is recorded.

    Raises RecordingError with the name if it fails or takes too long.
    """
    begun = time.monotonic()
    print(f"{name} …", file=sys.stderr, flush=True)
    try:
        async with asyncio.timeout(within_s):
            yield
    except (TimeoutError, AssertionError, Error) as error:
        seconds, load = time.monotonic() - begun, os.getloadavg()[0]
        reason = str(error).strip() or "it waited for something that did not come"
        raise RecordingError(
            f"The recording stopped in `{name}` after {seconds:.0f} s (load {load:.1f}, "
            f"{os.cpu_count()} cores): {reason}. Nothing was stored. "
            "On a busy machine, run it again when the load is lower."
        ) from error


def run_recording(recording: Coroutine[object, object, None]) -> None:
    """Run a recording; exit with 1 and one paragraph if it fails, with stack traces if even its end hangs."""
    faulthandler.dump_traceback_later(RECORDING_S, exit=True)
    try:
        asyncio.run(recording)
    except RecordingError as error:
        sys.exit(str(error))
    finally:
        faulthandler.cancel_dump_traceback_later()

"""Preservation of task cancellations that a library swallows. Used around calls of asyncpg and nats-py.

Before Python 3.12 `asyncio.wait_for` drops a cancellation that arrives together with its result, and a
connection that breaks at that time replaces the cancellation by its own error. A loop that retries after
errors would then never end.
"""

import asyncio
import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def keeping_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end of the block if this task was cancelled during it."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError

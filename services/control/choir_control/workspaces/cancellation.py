"""Work in threads that ends when its caller is cancelled, so that a stop of control does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def run_cancellable(work: Callable[[threading.Event], Result]) -> Result:
    """Run `work` in a thread; it has to end soon after the event that it gets is set."""
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(work, cancelled)
    finally:
        cancelled.set()

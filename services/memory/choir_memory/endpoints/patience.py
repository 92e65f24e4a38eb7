"""Try a call again while the database comes back. Called by every door.

Writes carry a call_id and reads change nothing, so both may be repeated.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

from choir_common.errors import ChoirError, Unavailable

PATIENCE_S = 6.0
"""Seconds an answer waits for a database that is away; callers wait ten."""

Answer = TypeVar("Answer")


async def patiently(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return what `call` answers; raises what it raises, Unavailable only after `PATIENCE_S`."""
    async for attempt in stamina.retry_context(
        on=Unavailable, attempts=None, timeout=PATIENCE_S, wait_initial=0.05, wait_max=0.5
    ):
        with attempt:
            return await call()
    raise ChoirError  # the loop above returns or raises

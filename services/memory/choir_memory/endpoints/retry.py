"""Retry a request while the database is unavailable. Called by most endpoints.

Requests may be repeated: writes carry a call_id or are idempotent, and reads change nothing.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

from choir_common.errors import ChoirError, Unavailable

RETRY_TIMEOUT_S = 6.0
"""Seconds a request is retried while the database is unavailable; callers wait ten."""

Answer = TypeVar("Answer")


async def retry_unavailable(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the result of `call`, retried on Unavailable for up to `PROBE_AFTER_S`; other errors pass
    through."""
    async for attempt in stamina.retry_context(
        on=Unavailable, attempts=None, timeout=RETRY_TIMEOUT_S, wait_initial=0.05, wait_max=0.5
    ):
        with attempt:
            return await call()
    raise ChoirError  # the loop above returns or raises

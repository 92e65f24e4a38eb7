"""Calls that are repeated until control, or the messenger, has taken what a user sent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, InvalidRequest, NotFound, TooLarge
from choir_gateway.channels.file_transfer import RefusedError

log = structlog.get_logger("choir.channels")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0

T = TypeVar("T")


async def repeat_until_accepted(call: Callable[[], Awaitable[T]], gateway: str) -> T | None:
    """Repeat a call until it succeeds, with growing pauses; return None if it is refused for good."""
    backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
    while True:
        try:
            return await call()
        except (NotFound, InvalidRequest, TooLarge, RefusedError) as error:
            log.warning("refused", gateway=gateway, error=str(error))
            return None
        except ChoirError as error:
            log.info("not accepted yet; trying again", gateway=gateway, error=error.message)
            wait_s = error.retry_after_s or 0.0
        await asyncio.sleep(max(backoff.pause_s(), min(wait_s, MAX_WAIT_S)))

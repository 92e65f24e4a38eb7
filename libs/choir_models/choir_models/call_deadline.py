"""Time limits of a model call: `timeout_ms` bounds each silence, and this module the whole call.

A slow model that still writes is not interrupted; a provider that sends nothing is left. Clients apply the
first limit to each read, also to the wait for the first byte.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from choir_common.i18n import _
from choir_models.model import UNKNOWN_OUTPUT, ModelFailed

MAX_CALL_S = 1_800.0
"""Longest duration of a call, unless `timeout_ms` is longer: a response may trickle without limit."""


def longest_call_s(timeout_s: float) -> float:
    """Return the longest duration of a call whose provider may be silent for `timeout_s`."""
    return max(MAX_CALL_S, timeout_s)


@asynccontextmanager
async def call_deadline(timeout_s: float) -> AsyncGenerator[None]:
    """End the block after the longest duration of a call; raises ModelFailed."""
    limit_s = longest_call_s(timeout_s)
    try:
        async with asyncio.timeout(limit_s) as deadline:
            yield
    except TimeoutError as error:
        if not deadline.expired():
            raise
        message = _("the provider's answer was not complete after {limit_s:g} s").format(
            limit_s=limit_s
        )
        raise ModelFailed(message, cause="timeout", spent=UNKNOWN_OUTPUT) from error


def silence_failure(timeout_s: float) -> ModelFailed:
    """Return the failure of a call whose provider sent nothing for `timeout_s`.

    The provider had the request, and may bill it.
    """
    message = _("the provider sent nothing for {timeout_s:g} s").format(timeout_s=timeout_s)
    return ModelFailed(message, cause="timeout", spent=UNKNOWN_OUTPUT)

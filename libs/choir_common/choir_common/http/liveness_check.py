"""Detection of a server that accepts requests but responds to none, before a request's own deadline.

Used by choirctl for choird and by control for the gateway.
"""

import asyncio
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

import httpx2

PROBE_AFTER_S = 6.0
PROBE_TIMEOUT_S = 2.0


async def await_unless_hung(
    client: httpx2.AsyncClient,
    sending: Coroutine[Any, Any, httpx2.Response],
    patience_s: float = PROBE_AFTER_S,
) -> httpx2.Response:
    """Return the response to a request; give up a slow one if `/livez` does not respond either.

    Raises httpx2.ReadTimeout in that case, and any error of `sending`.
    """
    task = asyncio.ensure_future(sending)
    try:
        while True:
            await asyncio.wait((task,), timeout=patience_s)
            hangs = not task.done() and not await _lives(client)
            if task.done():
                return task.result()
            if hangs:
                raise httpx2.ReadTimeout(
                    "The server responds neither to this request nor to /livez."
                )
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _lives(client: httpx2.AsyncClient) -> bool:
    timeout = httpx2.Timeout(PROBE_TIMEOUT_S)
    try:
        answer = await client.get("/livez", timeout=timeout)
    except httpx2.HTTPError:
        return False
    return answer.status_code == HTTPStatus.OK

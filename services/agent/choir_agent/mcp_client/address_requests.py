"""Addresses that a person must open before a server answers a call (error -32042 of the protocol).

Each is a request for approval that shows the address. After the person's yes, the call is made again, when
the server says that the person is done there, or after some time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from choir_agent.mcp_client.call_progress import CallProgress
from choir_agent.mcp_client.faults import AddressRequired
from choir_agent.tools.tool import ToolFailed
from choir_common.errors import ChoirError
from choir_common.wire.model import JsonObject

MAX_ROUNDS = 2
"""A call may demand addresses so often."""
MAX_ADDRESSES = 3
MAX_KNOWN = 100
DONE_WITHIN_S = 120.0
"""Seconds that a person has at an address before the call is made again, unless the server says earlier."""

Ask = Callable[[JsonObject], Awaitable[JsonObject]]
"""Asks the person, and returns the answer as an `ElicitResult`."""


class AddressTracker:
    """What a server said about addresses: the ids of the requests that are done."""

    def __init__(self) -> None:
        self._done: OrderedDict[str, None] = OrderedDict()
        self._news = asyncio.Event()

    def note_done(self, request_id: str) -> None:
        """Note that a person is done at the address of a request."""
        self._done[request_id[:200]] = None
        while len(self._done) > MAX_KNOWN:
            self._done.popitem(last=False)
        self._news.set()

    async def wait(self, request_ids: set[str], timeout_s: float) -> None:
        """Wait until a person is done with these requests, or for some seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                while not request_ids <= self._done.keys():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return


async def call_with_addresses(
    call: Callable[[], Awaitable[JsonObject]],
    ask: Ask | None,
    addresses: AddressTracker,
    progress: CallProgress,
) -> JsonObject:
    """Make a call, and again after a person has agreed to open the addresses that it demands.

    `ask` is None if the server may not ask. Raises ToolFailed with what the model can do.
    """
    for _ in range(MAX_ROUNDS):
        try:
            return await call()
        except AddressRequired as error:
            await _ask_person(error, ask)
            ids = {str(request.get("elicitationId"))[:200] for request in error.requests}
            async with progress.pause():
                await addresses.wait(ids, min(DONE_WITHIN_S, progress.pause_left_s()))
    try:
        return await call()
    except AddressRequired as error:
        raise ToolFailed(
            "address_required",
            "The user agreed to open the address that the server demands, but the server still waits. Ask "
            f"the user to finish there, then call again. The server says: {error.message}",
        ) from error


async def _ask_person(error: AddressRequired, ask: Ask | None) -> None:
    """Show the addresses; raises ToolFailed unless the person agrees to open all of them."""
    why = f"The server demands that the user opens an address first: {error.message}"
    if ask is None:
        raise ToolFailed(
            "address_required", f"{why}. It may not ask the user (`elicitation` of config.json)."
        ) from error
    if not 0 < len(error.requests) <= MAX_ADDRESSES:
        raise ToolFailed("address_required", f"{why}. It named none, or too many.") from error
    for request in error.requests:
        try:
            answer = await ask({**request, "mode": "url"})
        except ChoirError as fault:
            raise ToolFailed("address_required", f"{why}. {fault.message}") from error
        if answer.get("action") != "accept":
            raise ToolFailed(
                "address_required", f"{why}. The user was shown it and did not agree."
            ) from error

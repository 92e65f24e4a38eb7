"""Calls of tools that have ended while a person may still be asked about them."""

import asyncio
from collections import deque
from collections.abc import Sequence

from choir_common.wire.events import Event
from choir_control.log.leases.store import Lease

MAX_CALLS = 1_000
MCP_PREFIX = "mcp."
SessionCall = tuple[str, str]
"""A session's id, and a call's."""


class CallResultQueue:
    """Queue of ended calls; of too many, the oldest are dropped, whose requests expire by themselves."""

    def __init__(self) -> None:
        self._calls: deque[SessionCall] = deque(maxlen=MAX_CALLS)
        self._news = asyncio.Event()

    def note_events(self, lease: Lease, events: Sequence[Event]) -> None:
        """Queue the calls that were cancelled, and those of MCP servers, which may have left a question open.

        Other calls end only after the decision about them.
        """
        for event in events:
            if event.type != "tool_result_committed":
                continue
            is_of_server = str(event.payload.get("tool")).startswith(MCP_PREFIX)
            if event.payload.get("status") == "interrupted" or is_of_server:
                call_id = str(event.payload.get("call_id"))
                self._calls.append((lease.session_id, call_id))
        if self._calls:
            self._news.set()

    async def wait(self) -> list[SessionCall]:
        """Wait for calls, and remove and return them."""
        await self._news.wait()
        self._news.clear()
        calls = list(self._calls)
        self._calls.clear()
        return calls

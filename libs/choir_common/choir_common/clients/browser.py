"""Client of the browser service over NATS; used by control's host tools."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.browsing import BrowsedPage, BrowseRequest, ContextRequest
from choir_common.wire.messages import Nothing
from choir_common.wire.operator import PartStatus

CONTEXT_TIMEOUT_S = 10.0
# Added to the request's own page timeout.
GRACE_S = 15.0
STATUS_TIMEOUT_S = 2.0


class Browser(Protocol):
    """A browser with one isolated context per agent."""

    async def close(self, context: ContextRequest) -> None: ...

    async def browse(self, request: BrowseRequest) -> BrowsedPage: ...

    async def status(self) -> PartStatus: ...


class BusBrowser:
    """The browser service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def close(self, context: ContextRequest) -> None:
        """Destroy the agent's browser context with its tabs and cookies."""
        await self._bus.ask(subjects.close_context(), context, Nothing, CONTEXT_TIMEOUT_S)

    async def browse(self, request: BrowseRequest) -> BrowsedPage:
        """Run one browser action; raises Forbidden for a private address, BadInput for a bad URL."""
        timeout_s = request.timeout_ms / 1000 + GRACE_S
        return await self._bus.ask(subjects.browse_page(), request, BrowsedPage, timeout_s)

    async def status(self) -> PartStatus:
        """Return the browser's status."""
        return await self._bus.ask(
            subjects.browser_status(), Nothing(), PartStatus, STATUS_TIMEOUT_S
        )

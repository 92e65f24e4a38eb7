"""Client of the browser service over NATS; used by control's host tools."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import NotRunning, Unavailable
from choir_common.i18n import _
from choir_common.wire.browser import BrowseRequest, BrowseResponse, CloseContext
from choir_common.wire.messages import Empty
from choir_common.wire.operator import ComponentStatus

CONTEXT_TIMEOUT_S = 10.0
# Added to the request's own page timeout.
GRACE_S = 15.0
STATUS_TIMEOUT_S = 2.0
ABSENT = _("does not run here: `docker compose --profile browser up --wait` starts it")


class BrowserClient(Protocol):
    """A browser with one isolated context per agent."""

    async def close(self, context: CloseContext) -> None: ...

    async def browse(self, request: BrowseRequest) -> BrowseResponse: ...

    async def status(self) -> ComponentStatus: ...


class NatsBrowserClient:
    """The browser service over NATS.

    Where it is `optional`, as with docker compose, its absence is no failure, and errors say how to start it.
    """

    def __init__(self, bus: Bus, *, optional: bool = False) -> None:
        self._bus = bus
        self._optional = optional

    async def close(self, context: CloseContext) -> None:
        """Destroy the agent's browser context with its tabs and cookies."""
        await self._bus.request(subjects.close_context(), context, Empty, CONTEXT_TIMEOUT_S)

    async def browse(self, request: BrowseRequest) -> BrowseResponse:
        """Run one browser action; raises Forbidden for a private address, InvalidRequest for a bad URL."""
        timeout_s = request.timeout_ms / 1000 + GRACE_S
        try:
            return await self._bus.request(
                subjects.browse_page(), request, BrowseResponse, timeout_s
            )
        except NotRunning as error:
            if self._optional:
                raise Unavailable(_("The browser {absent}.").format(absent=ABSENT)) from error
            raise

    async def status(self) -> ComponentStatus:
        """Return the browser's status."""
        try:
            return await self._bus.request(
                subjects.browser_status(), Empty(), ComponentStatus, STATUS_TIMEOUT_S
            )
        except NotRunning:
            if self._optional:
                return ComponentStatus(name="browser", ok=True, detail=ABSENT)
            raise

"""choir.web.browse, by the browser service (spec 18.2)."""

import contextlib

from choir_common.clients.browser import Browser
from choir_common.errors import ChoirError
from choir_common.wire.browsing import BrowseRequest, ContextRequest
from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire
from choir_control.hosttools.read import read_input
from choir_control.leases.store import Lease


class BrowseTool:
    """A page as text, in the agent's own context."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    async def browse(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Load a page."""
        request = read_input(BrowseRequest, given, agent_id=lease.agent_id, call_id=call_id)
        return await self._browser.browse(request)

    async def release(self, agent_id: str) -> None:
        """Destroy the agent's context: its process has ended. A browser that is away has none."""
        with contextlib.suppress(ChoirError):
            await self._browser.close(ContextRequest(agent_id=agent_id))

"""The tool choir.web.browse, executed by the browser service.

The browser stores a screenshot or a download for a short time and returns its id over NATS.
`hosttools.takeaway` fetches it over HTTP and saves it in the workspace.
"""

import contextlib

from choir_common.clients.browser import Browser
from choir_common.errors import ChoirError
from choir_common.http.transport import make_client
from choir_common.wire.browsing import BrowseOutcome, BrowseRequest, ContextRequest, Screenshot
from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire
from choir_control.configuration.current import Configuration
from choir_control.hosttools.read import read_input
from choir_control.hosttools.takeaway import Takeaway
from choir_control.leases.store import Lease
from choir_control.settings import ControlSettings


class BrowseTool:
    """Handler of browser actions in the agent's own browser context."""

    def __init__(self, browser: Browser, takeaway: Takeaway) -> None:
        self._browser = browser
        self._takeaway = takeaway

    async def browse(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Run one action, and save the resulting file, if any, in the workspace."""
        life = f"{lease.session_id}/{lease.epoch}"
        request = read_input(
            BrowseRequest, given, agent_id=lease.agent_id, life=life, call_id=call_id
        )
        page = await self._browser.browse(request)
        seen = BrowseOutcome.model_validate_json(page.model_dump_json(exclude={"blob"}))
        if page.blob is None:
            return seen
        taken = isinstance(request.action, Screenshot)
        file = await self._takeaway.save(lease.bindings.workspace, page.blob, to_send=taken)
        return seen.model_copy(update={"file": file})

    async def aclose(self) -> None:
        """Close the HTTP connections to the browser."""
        await self._takeaway.aclose()

    async def release(self, agent_id: str) -> None:
        """Close the agent's browser context after its process ended; errors are ignored.

        If the browser is unavailable, its contexts are gone too.
        """
        with contextlib.suppress(ChoirError):
            await self._browser.close(ContextRequest(agent_id=agent_id))


def make_browse_tool(
    browser: Browser, settings: ControlSettings, configuration: Configuration
) -> BrowseTool:
    """Return the tool with an HTTP client for the browser."""
    return BrowseTool(browser, Takeaway(make_client(settings.browser_door), configuration.root_of))

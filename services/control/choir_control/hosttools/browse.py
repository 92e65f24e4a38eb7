"""choir.web.browse, by the browser service (spec 18.2); what it took out of a page goes to the workspace.

The browser keeps a picture or a download for a moment and tells its name over the bus; `hosttools.takeaway`
fetches it from there.
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
    """Actions in the agent's own context."""

    def __init__(self, browser: Browser, takeaway: Takeaway) -> None:
        self._browser = browser
        self._takeaway = takeaway

    async def browse(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Do one action, and lay the file that came of it into the workspace."""
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
        """Close the connections to the browser's door."""
        await self._takeaway.aclose()

    async def release(self, agent_id: str) -> None:
        """Destroy the agent's context: its process has ended. A browser that is away has none."""
        with contextlib.suppress(ChoirError):
            await self._browser.close(ContextRequest(agent_id=agent_id))


def make_browse_tool(
    browser: Browser, settings: ControlSettings, configuration: Configuration
) -> BrowseTool:
    """Make the tool, with a client of the browser's door."""
    return BrowseTool(browser, Takeaway(make_client(settings.browser_door), configuration.root_of))

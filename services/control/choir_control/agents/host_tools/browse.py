"""The tool choir.web.browse, executed by the browser service.

The browser stores a screenshot or a download for a short time and returns its id over NATS.
`ArtifactDownload` fetches it over HTTP and saves it in the workspace. The browser executes code of
strangers, so its file names and sizes are not trusted.
"""

import asyncio
import contextlib

import httpx2

from choir_common.clients.browser import BrowserClient
from choir_common.errors import ChoirError, TooLarge, Unavailable
from choir_common.http.client import make_client, stream_download
from choir_common.wire.browser import (
    BrowseRequest,
    BrowseToolOutput,
    CloseContext,
    DownloadHandle,
    SavedFile,
    Screenshot,
)
from choir_common.wire.model import JsonObject, WireModel
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease
from choir_control.settings import ControlSettings
from choir_control.workspaces.staging import StagedFile, safe_name

# The maximum of CHOIR_BROWSER_MAX_FILE_MB.
MAX_BYTES = 200_000_000
DOWNLOAD_TIMEOUT_S = 60.0


class ArtifactDownload:
    """Downloader of files from the browser into workspaces."""

    def __init__(self, browser: httpx2.AsyncClient, configuration: ConfigService) -> None:
        self._browser = browser
        self._configuration = configuration

    async def save(self, workspace: str, blob: DownloadHandle, *, to_send: bool) -> SavedFile:
        """Save a file in `.choirtmp/send` or `.choirtmp/recv`, under a unique name.

        Raises TooLarge, Unavailable if the transfer fails, Conflict if the directory cannot be
        used.
        """
        root = self._configuration.root_of(workspace)
        draft = await asyncio.to_thread(StagedFile, root, "send" if to_send else "recv")
        try:
            async with asyncio.timeout(DOWNLOAD_TIMEOUT_S):
                await self._fetch(blob, draft)
            path = await asyncio.to_thread(draft.finish, safe_name(blob.name))
        except TimeoutError as error:
            raise Unavailable(f"The browser did not send {blob.name} in time.") from error
        except OSError as error:
            raise Unavailable(f"{blob.name} could not be written: {error.strerror}.") from error
        finally:
            await asyncio.to_thread(draft.close)
        return SavedFile(path=path, mime=blob.mime, size=draft.size)

    async def aclose(self) -> None:
        """Close the HTTP connections to the browser."""
        await self._browser.aclose()

    async def _fetch(self, blob: DownloadHandle, draft: StagedFile) -> None:
        async with stream_download(self._browser, f"/v1/blobs/{blob.blob_id}") as pieces:
            async for piece in pieces:
                # The browser is not trusted to send as much as it announced.
                if draft.size + len(piece) > min(blob.size, MAX_BYTES):
                    raise TooLarge("The browser sent more bytes than announced.")
                await asyncio.to_thread(draft.write, piece)
        if draft.size != blob.size:
            raise Unavailable("The browser sent fewer bytes than announced.")


class BrowseTool:
    """Handler of browser actions in the agent's own browser context."""

    def __init__(self, browser: BrowserClient, downloads: ArtifactDownload) -> None:
        self._browser = browser
        self._downloads = downloads

    async def browse(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Run one action, and save the resulting file, if any, in the workspace."""
        life = f"{lease.session_id}/{lease.epoch}"
        request = parse_tool_input(
            BrowseRequest, arguments, agent_id=lease.agent_id, life=life, call_id=call_id
        )
        page = await self._browser.browse(request)
        output = BrowseToolOutput.model_validate_json(page.model_dump_json(exclude={"blob"}))
        if page.blob is None:
            return output
        is_screenshot = isinstance(request.action, Screenshot)
        file = await self._downloads.save(
            lease.bindings.workspace, page.blob, to_send=is_screenshot
        )
        return output.model_copy(update={"file": file})

    async def aclose(self) -> None:
        """Close the HTTP connections to the browser."""
        await self._downloads.aclose()

    async def close_context(self, agent_id: str) -> None:
        """Close the agent's browser context after its process ended; errors are ignored.

        If the browser is unavailable, its contexts are gone too.
        """
        with contextlib.suppress(ChoirError):
            await self._browser.close(CloseContext(agent_id=agent_id))


def make_browse_tool(
    browser: BrowserClient, settings: ControlSettings, configuration: ConfigService
) -> BrowseTool:
    """Return the tool with an HTTP client for the browser."""
    return BrowseTool(
        browser, ArtifactDownload(make_client(settings.browser_address), configuration)
    )

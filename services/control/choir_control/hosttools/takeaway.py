"""Transfer of screenshots and downloads from the browser into the agent's workspace.

Called by `browse`. The browser executes code of strangers, so its names and sizes are not trusted.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2

from choir_common.errors import TooLarge, Unavailable
from choir_common.http.bytes_stream import streamed
from choir_common.wire.browsing import Blob, SavedFile
from choir_control.workspaces.naming import safe_name
from choir_control.workspaces.staging import Draft

# The maximum of CHOIR_BROWSER_MAX_FILE_MB.
MAX_BYTES = 200_000_000
WITHIN_S = 60.0


class Takeaway:
    """Downloader of files from the browser into workspaces."""

    def __init__(self, browser: httpx2.AsyncClient, root_of: Callable[[str], Path]) -> None:
        """Create it; `root_of` returns the directory of a workspace."""
        self._browser = browser
        self._root_of = root_of

    async def save(self, workspace: str, blob: Blob, *, to_send: bool) -> SavedFile:
        """Save a file in `.choirtmp/send` or `.choirtmp/recv`, under a unique name.

        Raises TooLarge, Unavailable if the transfer fails, Conflict if the directory cannot be
        used.
        """
        root = self._root_of(workspace)
        draft = await asyncio.to_thread(Draft, root, "send" if to_send else "recv")
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._fetch(blob, draft)
            path = await asyncio.to_thread(draft.finish, safe_name(blob.name))
        except TimeoutError as error:
            raise Unavailable(f"The browser did not hand over {blob.name} in time.") from error
        except OSError as error:
            raise Unavailable(f"{blob.name} could not be written: {error.strerror}.") from error
        finally:
            await asyncio.to_thread(draft.close)
        return SavedFile(path=path, mime=blob.mime, size=draft.size)

    async def aclose(self) -> None:
        """Close the HTTP connections to the browser."""
        await self._browser.aclose()

    async def _fetch(self, blob: Blob, draft: Draft) -> None:
        async with streamed(self._browser, f"/v1/blobs/{blob.blob_id}") as pieces:
            async for piece in pieces:
                # The browser is not trusted to send as much as it announced.
                if draft.size + len(piece) > min(blob.size, MAX_BYTES):
                    raise TooLarge("The browser sent more than it had announced.")
                await asyncio.to_thread(draft.write, piece)
        if draft.size != blob.size:
            raise Unavailable("The browser sent less than it had announced.")

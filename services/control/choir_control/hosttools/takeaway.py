"""Fetch what the browser took out of a page, and lay it into the agent's workspace. Called by `browse`.

The browser is the one part that strangers' programs run in: its names and sizes are believed no more than
theirs.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import httpx2

from choir_common.errors import TooLarge, Unavailable
from choir_common.http.bytes_stream import streamed
from choir_common.wire.browsing import Blob, SavedFile
from choir_control.workspaces.laying import Draft

# as much as CHOIR_BROWSER_MAX_FILE_MB can be
MAX_BYTES = 200_000_000
WITHIN_S = 60.0
MAX_NAME_CHARS = 80
_UNSAFE = re.compile(r"[^\w.-]+")


class Takeaway:
    """The way of files from the browser into workspaces."""

    def __init__(self, browser: httpx2.AsyncClient, root_of: Callable[[str], Path]) -> None:
        """`root_of` tells where a workspace of that name is."""
        self._browser = browser
        self._root_of = root_of

    async def save(self, workspace: str, blob: Blob, *, to_send: bool) -> SavedFile:
        """Lay a file into `.choirtmp/send`, or `recv`, under a name of its own.

        Raises TooLarge, Unavailable when the browser broke off, Conflict when the place cannot be used.
        """
        root = self._root_of(workspace)
        draft = await asyncio.to_thread(Draft, root, "send" if to_send else "recv")
        try:
            async with asyncio.timeout(WITHIN_S):
                size = await self._fetch(blob, draft)
            path = await asyncio.to_thread(draft.finish, harmless(blob.name))
        except TimeoutError as error:
            raise Unavailable(f"The browser did not hand over {blob.name} in time.") from error
        except OSError as error:
            raise Unavailable(f"{blob.name} could not be written: {error.strerror}.") from error
        finally:
            await asyncio.to_thread(draft.close)
        return SavedFile(path=path, mime=blob.mime, size=size)

    async def aclose(self) -> None:
        """Close the connections to the browser."""
        await self._browser.aclose()

    async def _fetch(self, blob: Blob, draft: Draft) -> int:
        size = 0
        async with streamed(self._browser, f"/v1/blobs/{blob.blob_id}") as pieces:
            async for piece in pieces:
                size += len(piece)
                if size > min(blob.size, MAX_BYTES):
                    raise TooLarge("The browser sent more than it had announced.")
                await asyncio.to_thread(draft.write, piece)
        if size != blob.size:
            raise Unavailable("The browser sent less than it had announced.")
        return size


def harmless(name: str) -> str:
    """Return a plain file name: nothing hidden, no path, not long."""
    safe = _UNSAFE.sub("_", name).strip("._-") or "file"
    return safe[-MAX_NAME_CHARS:].lstrip("._-") or "file"

"""Transfer of files: downloads from the homeserver for `channel`, and uploads to it for `sender`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import IO

import structlog

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment
from choir_gateway.channels.file_transfer import RefusedError, fetch_file, stream_file
from choir_gateway.channels.matrix.api_call import call_matrix
from choir_gateway.channels.matrix.client import MatrixClient
from choir_gateway.channels.matrix.event_parser import MEDIA_ADDRESS
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls

log = structlog.get_logger("choir.gateway.matrix")

DEFAULT_UPLOAD_BYTES = 50 * 1024 * 1024
"""If the homeserver states no limit."""
MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def download_file(client: MatrixClient, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a file that a user sent.

    Raises NotFound if the homeserver no longer has it, Unavailable.
    """
    address = MEDIA_ADDRESS.fullmatch(ref)
    if address is None:
        raise NotFound(_("This is no file of Matrix."))
    path = f"/_matrix/client/v1/media/download/{address[1]}/{address[2]}"
    async with stream_file(client.downloads, path, "The homeserver") as pieces:
        yield pieces


class FileUploader:
    """Uploader of agents' files, within the limit of the homeserver."""

    def __init__(
        self, client: MatrixClient, calls: MatrixMessageCalls, files: OutboxFilesClient
    ) -> None:
        self._client = client
        self._calls = calls
        self._files = files
        self._max_bytes: int | None = None

    async def upload(self, outbox_id: int, attachment: Attachment, *, deadline: float) -> str:
        """Upload a file and return its address.

        Raises RefusedError if there is nothing to send, and as `call_matrix`.
        """
        async with self._fetch(outbox_id, attachment, await self._limit(deadline)) as spool:
            size = spool.tell()
            sized = attachment.model_copy(update={"size": size})
            return await self._calls.upload(spool, sized, deadline=deadline)

    def _fetch(
        self, outbox_id: int, attachment: Attachment, max_bytes: int
    ) -> AbstractAsyncContextManager[IO[bytes]]:
        return fetch_file(
            self._files,
            outbox_id,
            attachment,
            max_bytes=max_bytes,
            limit=_("the homeserver limits uploads to {size}").format(
                size=_describe_size(max_bytes)
            ),
        )

    async def _limit(self, deadline: float) -> int:
        """Return the limit of the homeserver, which is asked once."""
        if self._max_bytes is None:
            self._max_bytes = await self._read_limit(deadline)
        return self._max_bytes

    async def _read_limit(self, deadline: float) -> int:
        for path in ("/_matrix/client/v1/media/config", "/_matrix/media/v3/config"):
            with contextlib.suppress(RefusedError, Unavailable):
                limit_deadline = min(deadline, asyncio.get_running_loop().time() + 10.0)
                answer = await call_matrix(self._client, "GET", path, deadline=limit_deadline)
                limit = answer.get("m.upload.size")
                return limit if isinstance(limit, int) and limit > 0 else DEFAULT_UPLOAD_BYTES
        log.info("upload limit not known", assumed=DEFAULT_UPLOAD_BYTES)
        return DEFAULT_UPLOAD_BYTES


def _describe_size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size} bytes"

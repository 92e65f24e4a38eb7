"""Transfer of files: downloads from Slack for `channel`, and uploads to it for `sender`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import IO

import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment
from choir_gateway.channels.file_transfer import RefusedError, fetch_file, stream_file
from choir_gateway.channels.slack.client import SlackClient
from choir_gateway.channels.slack.errors import SlackRefusedError
from choir_gateway.channels.slack.payloads import SlackFile

MAX_UPLOAD_MIB = 1024
"""Slack's limit for a file."""
INFO_TIMEOUT_S = 20.0


@contextlib.asynccontextmanager
async def download_file(
    client: SlackClient, downloads: httpx2.AsyncClient, ref: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a file that a user sent.

    Raises NotFound if Slack no longer has it, Unavailable.
    """
    address = await _find_address(client, downloads.base_url, ref)
    async with stream_file(downloads, address, "Slack", headers=client.download_headers) as pieces:
        yield pieces


async def _find_address(client: SlackClient, api: httpx2.URL, ref: str) -> str:
    deadline = asyncio.get_running_loop().time() + INFO_TIMEOUT_S
    try:
        info = await client.call(
            "files.info", {"file": ref}, SlackFile, deadline=deadline, is_form=True
        )
    except SlackRefusedError as refusal:
        raise NotFound(_("Slack no longer has this file.")) from refusal
    address = info.file.url_private_download or info.file.url_private
    if not address or info.file.mode == "tombstone":
        raise NotFound(_("Slack no longer has this file."))
    if not _is_slacks(address, api):
        raise NotFound(_("The file is not at Slack."))
    return address


def _is_slacks(address: str, api: httpx2.URL) -> bool:
    """Return whether the token may be sent to an address: to the host of the API and its host of files."""
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise Unavailable(_("Slack returned no valid address for this file.")) from error
    hosts = (api.host, f"files.{api.host}")
    return url.scheme == api.scheme and url.port == api.port and url.host in hosts


@contextlib.asynccontextmanager
async def fetch_upload(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AsyncIterator[IO[bytes]]:
    """Yield an agent's file for an upload; raises as `fetch_file`, and RefusedError if it is empty."""
    async with fetch_file(
        files,
        outbox_id,
        attachment,
        max_bytes=MAX_UPLOAD_MIB * 1024 * 1024,
        limit=_("Slack limits files to {mib} MiB").format(mib=MAX_UPLOAD_MIB),
    ) as spool:
        if spool.tell() == 0:
            raise RefusedError(_("it is empty"))
        yield spool

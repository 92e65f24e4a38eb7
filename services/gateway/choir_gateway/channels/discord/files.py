"""Transfer of files: downloads from Discord for `channel`, and uploads to it for `sender`."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import IO

import discord
import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound, RateLimited, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment
from choir_gateway.channels.discord.api_call import (
    NETWORK_ERRORS,
    describe_error,
)
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.message_calls import MESSAGE
from choir_gateway.channels.file_transfer import fetch_file, stream_file

MAX_UPLOAD_MIB = 10
"""Discord's limit for bots and for users without Nitro."""


@contextlib.asynccontextmanager
async def download_file(
    client: DiscordClient, downloads: httpx2.AsyncClient, ref: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a file that a user sent.

    Raises NotFound if Discord no longer has it, RateLimited, Unavailable.
    """
    address = await _find_address(client, ref)
    async with stream_file(downloads, address, "Discord") as pieces:
        yield pieces


async def _find_address(client: DiscordClient, ref: str) -> str:
    """Return the present address of a file: those in messages expire after a day."""
    channel_id, _separator, rest = ref.partition("/")
    message_id, _separator, file_id = rest.partition("/")
    try:
        message = await client.call("GET", MESSAGE, channel_id=channel_id, message_id=message_id)
    except discord.RateLimited as error:
        raise RateLimited(_("Discord limits the rate."), retry_after_s=error.retry_after) from error
    except (discord.NotFound, discord.Forbidden) as error:
        raise NotFound(_("Discord no longer has this file.")) from error
    except NETWORK_ERRORS as error:
        raise Unavailable(describe_error(error)) from error
    snapshots = [it["message"] for it in message.get("message_snapshots", [])]
    for source in (message, *snapshots):
        for file in source.get("attachments", []):
            if str(file["id"]) == file_id:
                return str(file["url"])
    raise NotFound(_("Discord no longer has this file."))


def fetch_upload(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AbstractAsyncContextManager[IO[bytes]]:
    """Yield an agent's file for an upload; raises as `fetch_file`."""
    return fetch_file(
        files,
        outbox_id,
        attachment,
        max_bytes=MAX_UPLOAD_MIB * 1024 * 1024,
        limit=_("Discord limits bot uploads to {mib} MiB").format(mib=MAX_UPLOAD_MIB),
    )

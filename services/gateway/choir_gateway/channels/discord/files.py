"""Transfer of files: downloads from Discord for `channel`, and uploads to it for `sender`."""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO

import discord
import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, RateLimited, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment
from choir_gateway.channels.discord.api_call import (
    NETWORK_ERRORS,
    DiscordRefusedError,
    describe_error,
)
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.message_calls import MESSAGE

PIECE = 64 * 1024
DOWNLOAD_READ_TIMEOUT_S = 20.0
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
    try:
        async with downloads.stream("GET", address, timeout=DOWNLOAD_READ_TIMEOUT_S) as answer:
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise NotFound("Discord no longer has this file.")
            if answer.is_error:
                raise Unavailable(
                    f"Discord returned status {answer.status_code} instead of the file."
                )
            yield answer.aiter_bytes(PIECE)
    except httpx2.HTTPError as error:
        # `from None`: the address in the library's message opens the file for anybody.
        raise Unavailable(f"The connection to Discord failed ({type(error).__name__}).") from None


async def _find_address(client: DiscordClient, ref: str) -> str:
    """Return the present address of a file: those in messages expire after a day."""
    channel_id, _, rest = ref.partition("/")
    message_id, _, file_id = rest.partition("/")
    try:
        message = await client.call("GET", MESSAGE, channel_id=channel_id, message_id=message_id)
    except discord.RateLimited as error:
        raise RateLimited("Discord limits the rate.", retry_after_s=error.retry_after) from error
    except (discord.NotFound, discord.Forbidden) as error:
        raise NotFound("Discord no longer has this file.") from error
    except NETWORK_ERRORS as error:
        raise Unavailable(describe_error(error)) from error
    snapshots = [it["message"] for it in message.get("message_snapshots", [])]
    for source in (message, *snapshots):
        for file in source.get("attachments", []):
            if str(file["id"]) == file_id:
                return str(file["url"])
    raise NotFound("Discord no longer has this file.")


@contextlib.asynccontextmanager
async def fetch_file(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AsyncIterator[IO[bytes]]:
    """Yield the file, downloaded from control; it is deleted at the end of the block.

    Raises DiscordRefusedError if there is nothing to send, Unavailable if control may be asked again.
    """
    with tempfile.TemporaryFile() as spool:
        try:
            async with files.open(outbox_id, attachment.ref) as pieces:
                async for piece in pieces:
                    spool.write(piece)
                    if spool.tell() > MAX_UPLOAD_MIB * 1024 * 1024:
                        raise DiscordRefusedError(
                            f"Discord limits bot uploads to {MAX_UPLOAD_MIB} MiB"
                        )
        except (NotFound, TooLarge) as error:
            raise DiscordRefusedError(error.message) from error
        except Unavailable:
            raise
        except ChoirError as error:
            raise Unavailable(f"Control did not return the file: {error.message}") from error
        yield spool

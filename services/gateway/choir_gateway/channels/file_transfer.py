"""What the messengers' file transfers share: the stream of a user's file, and the copy of an agent's.

A user's file is a stream. Its address opens it for anybody, and may contain the bot's token, so no error
message contains the address. An agent's file is stored in a temporary file first: it may be too much for
memory, and a call that is retried sends it again.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import IO

import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, TooLarge, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment

PIECE_BYTES = 64 * 1024
DOWNLOAD_READ_TIMEOUT_S = 20.0


class RefusedError(Exception):
    """A permanent refusal; `blocks_user`: of all messages to this user, not only of this one."""

    def __init__(self, text: str, *, blocks_user: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.blocks_user = blocks_user


@contextlib.asynccontextmanager
async def stream_file(
    client: httpx2.AsyncClient,
    address: str,
    messenger: str,
    *,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of the file at an address of the messenger; redirects are not followed.

    Raises NotFound if the messenger no longer has it, Unavailable.
    """
    try:
        async with client.stream(
            "GET", address, headers=headers, timeout=DOWNLOAD_READ_TIMEOUT_S
        ) as answer:
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise NotFound(
                    _("{messenger} no longer has this file.").format(messenger=messenger)
                )
            if not answer.is_success:
                raise Unavailable(
                    _("{messenger} returned status {status_code} instead of the file.").format(
                        messenger=messenger, status_code=answer.status_code
                    )
                )
            yield answer.aiter_bytes(PIECE_BYTES)
    except httpx2.HTTPError as error:
        # `from None`: the library's message contains the address.
        raise Unavailable(
            _("The connection to {messenger} failed ({kind}).").format(
                messenger=messenger, kind=type(error).__name__
            )
        ) from None


@contextlib.asynccontextmanager
async def fetch_file(
    files: OutboxFilesClient,
    outbox_id: int,
    attachment: Attachment,
    *,
    max_bytes: int,
    limit: str,
) -> AsyncIterator[IO[bytes]]:
    """Yield an agent's file, downloaded from control; it is deleted at the end of the block.

    `limit` is the text of the refusal above `max_bytes`. Raises RefusedError if there is nothing to send,
    Unavailable if control may be asked again.
    """
    with tempfile.TemporaryFile() as spool:
        try:
            async with files.open(outbox_id, attachment.ref) as pieces:
                async for piece in pieces:
                    spool.write(piece)
                    if spool.tell() > max_bytes:
                        raise RefusedError(limit)
        except (NotFound, TooLarge) as error:
            raise RefusedError(error.message) from error
        except Unavailable:
            raise
        except ChoirError as error:
            raise Unavailable(
                _("Control did not return the file: {error}").format(error=error.message)
            ) from error
        yield spool

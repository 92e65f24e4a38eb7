"""Upload of an agent's file from control to Telegram. Called by `sender`.

The file is stored in a temporary file first: 50 MB are too much for memory, and a call that is
retried sends the file again.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO

from telegram import Bot, InputFile, Message, ReplyParameters
from telegram.constants import FileSizeLimit

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment, AttachmentKind
from choir_gateway.channels.telegram.api_call import RefusedError
from choir_gateway.channels.telegram.styled import Styled, to_html

# Telegram processes a file before it responds, which takes some time.
READ_TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 30.0


@contextlib.asynccontextmanager
async def fetch_file(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AsyncIterator[IO[bytes]]:
    """Yield the file, downloaded from control; it is deleted at the end of the block.

    Raises RefusedError if there is nothing to send, Unavailable if control may be asked again.
    """
    with tempfile.TemporaryFile() as spool:
        try:
            async with files.open(outbox_id, attachment.ref) as pieces:
                async for piece in pieces:
                    spool.write(piece)
                    if spool.tell() > FileSizeLimit.FILESIZE_UPLOAD:
                        raise RefusedError("Telegram limits bot uploads to 50 MB")
        except (NotFound, TooLarge) as error:
            raise RefusedError(error.message) from error
        except Unavailable:
            raise
        except ChoirError as error:
            raise Unavailable(f"Control does not give the file: {error.message}") from error
        if spool.tell() == 0:
            raise RefusedError("it is empty")
        yield spool


async def upload_file(
    bot: Bot,
    chat: int,
    attachment: Attachment,
    kind: AttachmentKind,
    spool: IO[bytes],
    text: Styled,
    reply: ReplyParameters | None,
) -> Message:
    """Send a file once, under its own name. Raises the errors of the library."""
    spool.seek(0)
    file = InputFile(spool, filename=attachment.name, read_file_handle=False)
    caption = to_html(text) or None
    mode = "HTML" if caption else None

    async def send(by: Callable[..., Awaitable[Message]]) -> Message:
        return await by(
            chat,
            file,
            caption=caption,
            parse_mode=mode,
            reply_parameters=reply,
            write_timeout=WRITE_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
        )

    match kind:
        case "document":
            return await send(bot.send_document)
        case "photo":
            return await send(bot.send_photo)
        case "voice":
            return await send(bot.send_voice)
        case "audio":
            return await send(bot.send_audio)
        case "video":
            return await send(bot.send_video)

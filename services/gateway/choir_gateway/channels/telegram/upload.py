"""Bring an agent's file from control to Telegram, as what it is. Called by sending.py.

It is laid down beside memory on its way: a bot holds no file of 50 MB, and a call that Telegram puts
off sends it again.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO

from telegram import Bot, InputFile, Message, ReplyParameters
from telegram.constants import FileSizeLimit

from choir_common.clients.outbox_files import OutboxFiles
from choir_common.errors import ChoirError, NotFound, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment, AttachmentKind
from choir_gateway.channels.telegram.calls import RefusedError
from choir_gateway.channels.telegram.styled import Styled, to_html

# Telegram takes its time to read a file before it answers
ANSWER_S = 30.0
PIECE_S = 30.0


@contextlib.asynccontextmanager
async def fetched(
    files: OutboxFiles, outbox_id: int, attachment: Attachment
) -> AsyncIterator[IO[bytes]]:
    """Give the file until the block ends.

    Raises RefusedError when there is none to send, Unavailable when control may be asked again.
    """
    with tempfile.TemporaryFile() as spool:
        try:
            async with files.open(outbox_id, attachment.ref) as pieces:
                async for piece in pieces:
                    spool.write(piece)
                    if spool.tell() > FileSizeLimit.FILESIZE_UPLOAD:
                        raise RefusedError("bots may send 50 MB at most")
        except (NotFound, TooLarge) as error:
            raise RefusedError(error.message) from error
        except Unavailable:
            raise
        except ChoirError as error:
            raise Unavailable(f"Control does not give the file: {error.message}") from error
        if spool.tell() == 0:
            raise RefusedError("it is empty")
        yield spool


async def upload(
    bot: Bot,
    chat: int,
    attachment: Attachment,
    kind: AttachmentKind,
    spool: IO[bytes],
    said: Styled,
    reply: ReplyParameters | None,
) -> Message:
    """Send a file once, under the name it has. Raises as the library does."""
    spool.seek(0)
    file = InputFile(spool, filename=attachment.name, read_file_handle=False)
    caption = to_html(said) or None
    mode = "HTML" if caption else None

    async def send(by: Callable[..., Awaitable[Message]]) -> Message:
        return await by(
            chat,
            file,
            caption=caption,
            parse_mode=mode,
            reply_parameters=reply,
            write_timeout=PIECE_S,
            read_timeout=ANSWER_S,
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

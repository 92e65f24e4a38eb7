"""Transfer of files: downloads from Telegram for `channel`, and uploads to it for `sender`.

A user's file is a stream. The bot's token is part of its address, so no error message may contain the
address.

An agent's file is stored in a temporary file first: 50 MB are too much for memory, and a call that is
retried sends the file again.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO

import httpx2
from telegram import Bot, InputFile, Message, ReplyParameters
from telegram.constants import FileSizeLimit
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, RateLimited, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment, AttachmentKind
from choir_gateway.channels.formatting.styled import Styled
from choir_gateway.channels.telegram.api_call import RefusedError, retry_after_s
from choir_gateway.channels.telegram.html import to_html

PIECE = 64 * 1024
DOWNLOAD_READ_TIMEOUT_S = 20.0
# Telegram processes a file before it responds, which takes some time.
UPLOAD_READ_TIMEOUT_S = 30.0
UPLOAD_WRITE_TIMEOUT_S = 30.0


@contextlib.asynccontextmanager
async def download_file(
    bot: Bot, client: httpx2.AsyncClient, ref: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a file.

    Raises NotFound if Telegram no longer has it, TooLarge above Telegram's 20 MB, RateLimited,
    Unavailable.
    """
    address = await _address(bot, ref)
    try:
        async with client.stream("GET", address, timeout=DOWNLOAD_READ_TIMEOUT_S) as answer:
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise NotFound("Telegram no longer has this file.")
            if answer.is_error:
                raise Unavailable(
                    f"Telegram returned status {answer.status_code} instead of the file."
                )
            yield answer.aiter_bytes(PIECE)
    except httpx2.HTTPError as error:
        # `from None`: the library's message contains the address.
        raise Unavailable(f"The connection to Telegram failed ({type(error).__name__}).") from None


async def _address(bot: Bot, ref: str) -> str:
    try:
        file = await bot.get_file(ref)
    except RetryAfter as error:
        raise RateLimited(
            "Telegram limits the rate.", retry_after_s=retry_after_s(error)
        ) from error
    except BadRequest as error:
        if "too big" in error.message.lower():
            raise TooLarge("Telegram limits bot downloads to 20 MB.") from error
        raise NotFound("Telegram no longer has this file.") from error
    except InvalidToken as error:
        raise Unavailable("Telegram refuses the bot's token.") from error
    except TelegramError as error:
        raise Unavailable(f"Telegram cannot be reached ({type(error).__name__}).") from error
    if file.file_path is None:
        raise NotFound("Telegram returned no address for this file.")
    return file.file_path


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
            raise Unavailable(f"Control did not return the file: {error.message}") from error
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
            write_timeout=UPLOAD_WRITE_TIMEOUT_S,
            read_timeout=UPLOAD_READ_TIMEOUT_S,
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

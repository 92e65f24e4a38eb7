"""Transfer of files: downloads from Telegram for `channel`, and uploads to it for `sender`."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO

import httpx2
from telegram import Bot, InputFile, Message, ReplyParameters
from telegram.constants import FileSizeLimit
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound, RateLimited, TooLarge, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment, AttachmentKind
from choir_gateway.channels.file_transfer import RefusedError, fetch_file, stream_file
from choir_gateway.channels.formatting.styled import Styled
from choir_gateway.channels.telegram.addresses import ChatAddress
from choir_gateway.channels.telegram.api_call import retry_after_s
from choir_gateway.channels.telegram.html import to_html

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
    async with stream_file(client, await _address(bot, ref), "Telegram") as pieces:
        yield pieces


async def _address(bot: Bot, ref: str) -> str:
    try:
        file = await bot.get_file(ref)
    except RetryAfter as error:
        raise RateLimited(
            _("Telegram limits the rate."), retry_after_s=retry_after_s(error)
        ) from error
    except BadRequest as error:
        if "too big" in error.message.lower():
            raise TooLarge(_("Telegram limits bot downloads to 20 MB.")) from error
        raise NotFound(_("Telegram no longer has this file.")) from error
    except InvalidToken as error:
        raise Unavailable(_("Telegram refuses the bot's token.")) from error
    except TelegramError as error:
        raise Unavailable(
            _("Telegram cannot be reached ({kind}).").format(kind=type(error).__name__)
        ) from error
    if file.file_path is None:
        raise NotFound(_("Telegram returned no address for this file."))
    return file.file_path


@contextlib.asynccontextmanager
async def fetch_upload(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AsyncIterator[IO[bytes]]:
    """Yield an agent's file for an upload; raises as `fetch_file`, and RefusedError if it is empty."""
    async with fetch_file(
        files,
        outbox_id,
        attachment,
        max_bytes=FileSizeLimit.FILESIZE_UPLOAD,
        limit=_("Telegram limits bot uploads to 50 MB"),
    ) as spool:
        if spool.tell() == 0:
            raise RefusedError(_("it is empty"))
        yield spool


async def upload_file(
    bot: Bot,
    chat: ChatAddress,
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
            chat.chat_id,
            file,
            message_thread_id=chat.topic,
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

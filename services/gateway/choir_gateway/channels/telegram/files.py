"""Download of users' files from Telegram, as a stream. Called by `channel`.

The bot's token is part of the address, so no error message may contain the address.
"""

import contextlib
from collections.abc import AsyncIterator

import httpx2
from telegram import Bot
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from choir_common.errors import NotFound, RateLimited, TooLarge, Unavailable
from choir_gateway.channels.telegram.api_call import retry_after_s

PIECE = 64 * 1024
READ_TIMEOUT_S = 20.0


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
        async with client.stream("GET", address, timeout=READ_TIMEOUT_S) as answer:
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise NotFound("Telegram no longer has this file.")
            if answer.is_error:
                raise Unavailable(f"Telegram answers {answer.status_code} instead of the file.")
            yield answer.aiter_bytes(PIECE)
    except httpx2.HTTPError as error:
        # `from None`: the library's message contains the address.
        raise Unavailable(f"Telegram broke off ({type(error).__name__}).") from None


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

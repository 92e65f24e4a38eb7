"""Execution of Telegram API calls that send something: rate limits, and the interpretation of errors.

The limits are 30 messages a second per bot, one a second per chat, with short bursts, and 20 a minute per
group. Callers also handle a 429 response, which may arrive nevertheless.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from aiolimiter import AsyncLimiter
from telegram import LinkPreviewOptions, Message
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_gateway.channels.file_transfer import RefusedError

# Five at once, then 25 a second: at most 30 in any second.
BOT_BURST, BOT_WINDOW_S = 5, 0.2
# A reply of 20,000 characters is sent at once; further messages one per second.
CHAT_BURST, CHAT_WINDOW_S = 5, 5.0
# A group takes 20 messages a minute, all its topics together: five at once, then one every four seconds.
GROUP_BURST, GROUP_WINDOW_S = 5, 20.0
MAX_CHATS = 1000

# python-telegram-bot wraps httpx's errors. These ones mean that the request was not sent.
NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")

NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
"""Telegram fetches an address to preview it, without a click; an agent's text must not cause that."""

Call = Callable[[], Awaitable[Message | bool]]


class RateLimiter:
    """Rate limiter of one bot and its chats."""

    def __init__(self) -> None:
        self._bot = AsyncLimiter(BOT_BURST, BOT_WINDOW_S)
        self._chats: OrderedDict[str, AsyncLimiter] = OrderedDict()

    async def wait(self, chat: str, deadline: float) -> None:
        """Wait until a message to this chat is allowed.

        Raises Unavailable if that is not before `deadline` (in the event loop's time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._chat(chat).acquire()
                await self._bot.acquire()
        except TimeoutError:
            raise Unavailable(
                _("The rate limit of this bot is exhausted."), retry_after_s=1.0
            ) from None

    def is_free(self, chat: str) -> bool:
        """Return True if an unimportant message may be sent now without delaying a reply."""
        return self._chat(chat).has_capacity(2) and self._bot.has_capacity(2)

    def _chat(self, address: str) -> AsyncLimiter:
        chat = address.partition("/")[0]
        if chat not in self._chats:
            is_group = chat.startswith("-")
            rate = (GROUP_BURST, GROUP_WINDOW_S) if is_group else (CHAT_BURST, CHAT_WINDOW_S)
            self._chats[chat] = AsyncLimiter(*rate)
            if len(self._chats) > MAX_CHATS:
                self._chats.popitem(last=False)
        self._chats.move_to_end(chat)
        return self._chats[chat]


async def call_telegram(call: Call, pace: RateLimiter, chat: str, deadline: float) -> str | None:
    """Make a call and return the id of the message that it created or edited.

    Raises RefusedError, Unavailable if certainly nothing was sent, OutcomeUnknown if something may
    have been.
    """
    while True:
        await pace.wait(chat, deadline)
        try:
            result = await call()
        except RetryAfter as error:
            wait_s = retry_after_s(error)
            if asyncio.get_running_loop().time() + wait_s > deadline:
                raise Unavailable(_("Telegram limits the rate."), retry_after_s=wait_s) from error
            await asyncio.sleep(wait_s)
        except InvalidToken as error:
            # The operator can correct the token, and the message waits for that.
            raise Unavailable(_("Telegram refuses the bot's token.")) from error
        except ChatMigrated as error:
            what = (
                f"the group is now a supergroup; set chat_id to {error.new_chat_id} in config.json"
            )
            raise RefusedError(what, blocks_user=True) from error
        except Forbidden as error:
            raise RefusedError(
                _("Telegram refuses: {error}").format(error=error.message), blocks_user=True
            ) from error
        except BadRequest as error:
            blocks_user = "chat not found" in error.message.lower()
            raise RefusedError(
                _("Telegram refuses: {error}").format(error=error.message), blocks_user=blocks_user
            ) from error
        except NetworkError as error:
            if "too large" in error.message.lower():
                raise RefusedError(_("it is larger than Telegram allows")) from error
            raise _unsent_or_unknown(error) from error
        except TelegramError as error:
            raise Unavailable(
                _("Telegram refuses temporarily: {error}").format(error=error.message)
            ) from error
        else:
            return str(result.message_id) if isinstance(result, Message) else None


def _unsent_or_unknown(error: NetworkError) -> Unavailable:
    if type(error.__cause__).__name__ in NOT_SENT:
        return Unavailable(_("Telegram cannot be reached; nothing was sent."))
    return OutcomeUnknown(_("The connection to Telegram broke while sending."))


def retry_after_s(error: RetryAfter) -> float:
    """Return the seconds of a rate limit; the type depends on the version of the library."""
    pause = error.retry_after
    return float(pause) if isinstance(pause, int) else pause.total_seconds()


def describe_error(error: TelegramError) -> str:
    """Return the reason why no updates arrive, as a text for operators."""
    if isinstance(error, InvalidToken):
        return "Telegram refuses the bot's token; check it in secrets.json."
    if isinstance(error, Conflict):
        return f"Another program uses this bot's token: {error.message}"
    return f"Telegram cannot be reached ({type(error).__name__})."

"""Access to Telegram bots that are not configured: who they are, and who writes to them.

Nothing is kept between two calls. Control decides what a message means; see `docs/design/channels.md`.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator

from telegram import Bot, Message, Update
from telegram.error import Conflict as PollConflict
from telegram.error import InvalidToken, NetworkError, RetryAfter, TelegramError

from choir_common.errors import Conflict, InvalidRequest, RateLimited, Unavailable
from choir_common.i18n import _
from choir_common.wire.telegram import (
    BotAccess,
    BotIdentity,
    BotMessage,
    BotMessages,
    ReadBotMessages,
)
from choir_gateway.channels.telegram.api_call import retry_after_s
from choir_gateway.channels.telegram.bot import make_bot
from choir_gateway.channels.telegram.update_parser import ALLOWED_UPDATES, PRIVATE

# Beyond the time that Telegram itself waits.
READ_SLACK_S = 10
MAX_NAME = 64

REFUSED_BY_TELEGRAM = _(
    "Telegram refuses this token. Copy it again from @BotFather: /mybots, the bot, API "
    "Token. A token that was revoked does not work any more."
)
UPDATES_TAKEN = _(
    "Another program receives this bot's messages: another Choir, or a bot program. Stop it, "
    "or create another bot with @BotFather (/newbot). If you do not know the program, "
    "/revoke in @BotFather makes a new token and locks it out."
)


class TelegramBotInspector:
    """The methods of `BotInspector` for Telegram."""

    async def identify(self, access: BotAccess) -> BotIdentity:
        """Return the bot of a token, and its webhook."""
        with _translated():
            async with _bot(access) as bot:
                me, webhook = await bot.get_me(), await bot.get_webhook_info()
                return BotIdentity(username=me.username or "", webhook_url=webhook.url)

    async def read_messages(self, request: ReadBotMessages) -> BotMessages:
        """Return the messages that people sent to a bot."""
        wait_s = int(request.wait_s)
        with _translated():
            async with _bot(request) as bot:
                updates = await bot.get_updates(
                    offset=None if request.after is None else request.after + 1,
                    timeout=wait_s,
                    read_timeout=wait_s + READ_SLACK_S,
                    # the kinds of the channel: Telegram stores the list for later polls
                    allowed_updates=ALLOWED_UPDATES,
                )
        return BotMessages(
            messages=tuple(
                _message(update.update_id, update.message)
                for update in updates
                if update.message is not None and _is_from_person(update)
            ),
            last=updates[-1].update_id if updates else None,
        )

    async def remove_webhook(self, access: BotAccess) -> BotIdentity:
        """Delete a bot's webhook; its updates stay."""
        with _translated():
            async with _bot(access) as bot:
                await bot.delete_webhook(drop_pending_updates=False)
        return await self.identify(access)


def _is_from_person(update: Update) -> bool:
    message = update.message
    return (
        message is not None
        and message.chat.type == PRIVATE
        and message.from_user is not None
        and not message.from_user.is_bot
    )


def _message(update_id: int, message: Message) -> BotMessage:
    user = message.from_user
    assert user is not None, "checked before"
    return BotMessage(
        update_id=update_id,
        user_id=str(user.id),
        user_name=user.full_name[:MAX_NAME],
        text=message.text or "",
    )


@contextlib.asynccontextmanager
async def _bot(access: BotAccess) -> AsyncIterator[Bot]:
    connection = make_bot(access.token, access.api_url, connections=1)
    async with contextlib.AsyncExitStack() as stack:
        for request in connection.requests:
            await stack.enter_async_context(request)
        yield connection.bot


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Convert the library's errors; messages never contain the token."""
    try:
        yield
    except InvalidToken as error:
        raise InvalidRequest(REFUSED_BY_TELEGRAM) from error
    except PollConflict as error:
        raise Conflict(UPDATES_TAKEN) from error
    except RetryAfter as error:
        raise RateLimited(
            _("Telegram limits the rate of this bot."), retry_after_s=retry_after_s(error)
        ) from error
    except NetworkError as error:
        raise Unavailable(
            _(
                "The gateway cannot reach Telegram ({kind}). Check its internet connection; `choirctl "
                "logs gateway` shows more."
            ).format(kind=type(error).__name__)
        ) from error
    except TelegramError as error:
        raise Unavailable(_("Telegram refuses: {error}").format(error=error.message)) from error

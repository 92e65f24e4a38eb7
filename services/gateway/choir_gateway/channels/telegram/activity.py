"""The calls that show typing and progress cards on Telegram; `channels.activity` decides when.

`drafts` shows the drafts of replies.
"""

import asyncio
from typing import ClassVar

from telegram import Bot
from telegram.constants import ChatAction
from telegram.error import RetryAfter, TelegramError

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.telegram.addresses import chat_of
from choir_gateway.channels.telegram.api_call import (
    NO_PREVIEW,
    Call,
    RateLimiter,
    call_telegram,
    retry_after_s,
)

CALL_TIMEOUT_S = 1.0


class TelegramActivityCalls:
    """Typing indicator and cards of one bot; implements `ActivityCalls`."""

    # Telegram shows "typing" for five seconds.
    typing_s: ClassVar[float] = 4.0

    def __init__(self, bot: Bot, rate_limiter: RateLimiter) -> None:
        self._bot = bot
        self._rate_limiter = rate_limiter

    def is_free(self, user_id: str) -> bool:
        """Return whether the rate limit leaves room for a card."""
        return self._rate_limiter.is_free(user_id)

    async def show_typing(self, user_id: str) -> None:
        """Show for five seconds that the bot is typing."""
        chat = chat_of(user_id)
        try:
            await self._bot.send_chat_action(chat.chat_id, ChatAction.TYPING, chat.topic)
        except RetryAfter as error:
            raise Unavailable(
                _("Telegram limits the rate."), retry_after_s=retry_after_s(error)
            ) from error
        except TelegramError as error:
            raise Unavailable(_("Telegram refuses: {error}").format(error=error.message)) from error

    async def hide_typing(self, user_id: str) -> None:
        """Do nothing: the indicator ends by itself."""

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card without a notification; return the id of its message."""
        chat = chat_of(user_id)
        message_id = await self._call(
            user_id,
            lambda: self._bot.send_message(
                chat.chat_id,
                text,
                message_thread_id=chat.topic,
                disable_notification=True,
                link_preview_options=NO_PREVIEW,
            ),
        )
        return str(message_id)

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card."""
        chat = chat_of(user_id)
        try:
            await self._call(
                user_id,
                lambda: self._bot.edit_message_text(
                    text, chat.chat_id, int(message_id), link_preview_options=NO_PREVIEW
                ),
            )
        except RefusedError as refusal:
            if "is not modified" not in refusal.text:
                raise

    async def _call(self, user_id: str, call: Call) -> str | None:
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        return await call_telegram(call, self._rate_limiter, user_id, deadline)

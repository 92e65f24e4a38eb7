"""Reactions by which a bot acknowledges the messages that control has stored.

Best effort: no message and no update waits for a reaction, and one that cannot be set is dropped.
"""

import asyncio
from collections import deque

import structlog
from telegram import Bot
from telegram.error import InvalidToken, RetryAfter, TelegramError

from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_gateway.channels.telegram.addresses import parse_chat, parse_message_id
from choir_gateway.channels.telegram.api_call import retry_after_s

log = structlog.get_logger("choir.gateway.telegram")

MAX_PENDING = 100
"""If more messages arrive while Telegram limits the rate, the oldest ones get no reaction."""


class MessageAcknowledger:
    """Queue of the reactions of one bot."""

    def __init__(self, bot: Bot, emoji: AcknowledgementEmoji | None) -> None:
        self._bot = bot
        self._emoji = emoji
        """None: the bot sets no reactions."""
        self._pending: deque[tuple[int, int]] = deque(maxlen=MAX_PENDING)
        self._arrival = asyncio.Event()

    def add(self, user_id: str, message_id: str | None) -> None:
        """Queue the reaction to a message; returns at once."""
        chat, message = parse_chat(user_id), parse_message_id(message_id)
        if self._emoji is None or chat is None or message is None:
            return
        self._pending.append((chat.chat_id, message.message_id))
        self._arrival.set()

    async def run(self) -> None:
        """Set reactions until cancelled."""
        while True:
            self._arrival.clear()
            while self._pending:
                await self._set_next()
            await self._arrival.wait()

    async def _set_next(self) -> None:
        chat_id, message_id = self._pending.popleft()
        try:
            await self._bot.set_message_reaction(chat_id, message_id, self._emoji)
        except RetryAfter as error:
            await asyncio.sleep(retry_after_s(error))
            self._pending.appendleft((chat_id, message_id))
        except InvalidToken:
            # The library's error for an unknown method, too.
            self._emoji = None
            self._pending.clear()
            log.info("this Bot API server does not set reactions")
        except TelegramError as error:
            # The user has deleted the message, for example.
            log.debug("reaction not set", error=error.message)
        except Exception:  # outermost loop of the reactions: messages must not stop
            log.exception("reaction not set")

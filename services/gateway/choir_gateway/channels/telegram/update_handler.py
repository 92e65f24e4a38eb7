"""Transfer of updates to control; each call returns once the update is durable.

Called by `polling` and `webhook`, one update at a time, so that the messages of a conversation stay
in order.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, assert_never

import structlog
from telegram import Bot, Update
from telegram.error import TelegramError

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, InvalidRequest, NotFound
from choir_common.wire.messages import ButtonPress, InboundMessage
from choir_gateway.channels.interface import ChannelDependencies
from choir_gateway.channels.telegram.update_parser import parse_message, parse_press

log = structlog.get_logger("choir.gateway.telegram")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0

T = TypeVar("T")
OnHeard = Callable[[InboundMessage, str | None], Awaitable[None]]
"""Receives a message and control's note for its user, the first time that the message arrives."""


class UpdateHandler:
    """Handler of the updates of one bot."""

    def __init__(
        self, bot: Bot, gateway: str, neighbours: ChannelDependencies, listener: OnHeard
    ) -> None:
        self._bot = bot
        self._gateway = gateway
        self._control = neighbours.control
        self._contacts = neighbours.contacts
        self._on_heard = listener

    def parse(self, update: Update) -> InboundMessage | ButtonPress | None:
        """Return the content of an update; None for strangers, groups and other kinds of updates."""
        if update.callback_query is not None:
            return parse_press(update.callback_query, self._gateway)
        return parse_message(update, self._gateway, self._contacts)

    async def handle(self, said: InboundMessage | ButtonPress | None) -> None:
        """Store the content of an update, retrying while control is unavailable."""
        match said:
            case InboundMessage():
                await self._accept(said)
            case ButtonPress():
                await self._press(said)
            case None:
                pass
            case _:
                assert_never(said)

    async def _accept(self, message: InboundMessage) -> None:
        accepted = await self._retry(lambda: self._control.accept(message))
        # The note of a repeated update was sent before.
        if accepted is not None and not accepted.duplicate:
            await self._on_heard(message, accepted.note)

    async def _press(self, press: ButtonPress) -> None:
        """Send the press to control, then show its answer; control edits the message through its outbox."""
        pressed = await self._retry(lambda: self._control.press(press))
        answer = pressed.answer if pressed else None
        try:
            await self._bot.answer_callback_query(press.callback_id, answer)
        except TelegramError as error:
            # Too late for the short answer; the decision is visible in the conversation.
            log.info("press not answered", gateway=self._gateway, reason=error.message)

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                return await ask()
            except (NotFound, InvalidRequest) as error:
                log.warning("update refused", gateway=self._gateway, reason=error.message)
                return None
            except ChoirError as error:
                log.info("update waits", gateway=self._gateway, reason=error.message)
            await asyncio.sleep(backoff.pause_s())

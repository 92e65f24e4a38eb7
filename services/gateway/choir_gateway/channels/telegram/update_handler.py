"""Transfer of updates to control; each call returns once the update is durable.

Updates are handled one at a time, so that the messages of a conversation stay in order. The user of
a stored message gets the current menu of commands.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, assert_never

import structlog
from telegram import Bot, BotCommand, BotCommandScopeChat, Update
from telegram.error import TelegramError

from choir_common.backoff import Backoff
from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError, InvalidRequest, NotFound
from choir_common.wire.messages import ButtonPress, DmBinding, InboundMessage
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.telegram.reactions import MessageAcknowledger
from choir_gateway.channels.telegram.update_parser import menu_name, parse_message, parse_press

log = structlog.get_logger("choir.gateway.telegram")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0

# Limits of Telegram.
MAX_COMMANDS = 100
MAX_SUMMARY = 256

T = TypeVar("T")


class CommandMenu:
    """Command menus of one bot, by configured user.

    Telegram stores a menu per chat, so strangers, whom the bot ignores, see none.
    """

    def __init__(self, bot: Bot, conversations: ConversationDirectory) -> None:
        self._bot = bot
        self._conversations = conversations
        self._menus: dict[str, tuple[BotCommand, ...]] = {}

    async def show(self, dm: DmBinding) -> None:
        """Send a user the current menu if it has changed; after a failure the next call tries again."""
        menu = self._for(dm)
        if not menu or self._menus.get(dm.user_id) == menu or not dm.user_id.isdigit():
            return
        try:
            await self._bot.set_my_commands(menu, BotCommandScopeChat(int(dm.user_id)))
        except TelegramError as error:
            # A user who never wrote to the bot has no chat yet.
            log.debug("menu not set", dm=dm.name, error=error.message)
            return
        self._menus[dm.user_id] = menu

    def _for(self, dm: DmBinding) -> tuple[BotCommand, ...]:
        commands = {
            menu_name(command): BotCommand(menu_name(command), command.summary[:MAX_SUMMARY])
            for command in reversed(self._conversations.commands)
            if dm.admin or not command.admin
        }
        return tuple(reversed(commands.values()))[:MAX_COMMANDS]


class UpdateHandler:
    """Handler of the updates of one bot."""

    def __init__(
        self,
        bot: Bot,
        gateway: str,
        *,
        control: ControlClient,
        conversations: ConversationDirectory,
        notes: NoteQueue,
        menu: CommandMenu,
        acknowledger: MessageAcknowledger,
    ) -> None:
        self._bot = bot
        self._gateway = gateway
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._menu = menu
        self._acknowledger = acknowledger

    def parse(self, update: Update) -> InboundMessage | ButtonPress | None:
        """Return the content of an update; None for strangers, groups and other kinds of updates."""
        if update.callback_query is not None:
            return parse_press(update.callback_query, self._gateway)
        return parse_message(update, self._gateway, self._conversations)

    async def handle(self, content: InboundMessage | ButtonPress | None) -> None:
        """Store the content of an update, retrying while control is unavailable."""
        match content:
            case InboundMessage():
                await self._accept(content)
            case ButtonPress():
                await self._press(content)
            case None:
                pass
            case _:
                assert_never(content)

    async def _accept(self, message: InboundMessage) -> None:
        acceptance = await self._retry(lambda: self._control.accept(message))
        dm = self._conversations.by_name.get(message.dm)
        # The note of a repeated update was sent before.
        if acceptance is None or acceptance.duplicate or dm is None:
            return
        # A command is answered at once, and the message that an edit corrects has its reaction.
        if acceptance.command is None and message.edits is None:
            self._acknowledger.add(dm.user_id, message.message_id)
        if acceptance.note is not None:
            self._notes.add(dm.user_id, acceptance.note)
        await self._menu.show(dm)

    async def _press(self, press: ButtonPress) -> None:
        """Send the press to control, then show its answer; control edits the message through its outbox."""
        response = await self._retry(lambda: self._control.press(press))
        answer = response.answer if response else None
        try:
            await self._bot.answer_callback_query(press.callback_id, answer)
        except TelegramError as error:
            # Too late for the short answer; the decision is visible in the conversation.
            log.info("press not answered", gateway=self._gateway, error=error.message)

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T | None:
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                return await call()
            except (NotFound, InvalidRequest) as error:
                log.warning("update refused", gateway=self._gateway, error=error.message)
                return None
            except ChoirError as error:
                log.info(
                    "update not processed yet; retrying", gateway=self._gateway, error=error.message
                )
            await asyncio.sleep(backoff.pause_s())

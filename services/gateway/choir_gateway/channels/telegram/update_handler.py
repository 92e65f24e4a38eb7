"""Transfer of updates to control; each call returns once the update is durable.

Updates are handled one at a time, so that the messages of a conversation stay in order. The user of
a stored message gets the current menu of commands.
"""

from typing import assert_never

import structlog
from telegram import Bot, BotCommand, BotCommandScopeChat, Chat, Update, User
from telegram.error import TelegramError

from choir_common.clients.control import ControlClient
from choir_common.wire.messages import ButtonPress, DmBinding, InboundMessage
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import Stranger, StrangerReplies
from choir_gateway.channels.telegram.addresses import parse_chat, parse_message_id
from choir_gateway.channels.telegram.group_messages import GROUPS
from choir_gateway.channels.telegram.reactions import MessageAcknowledger
from choir_gateway.channels.telegram.update_parser import (
    menu_name,
    parse_message,
    parse_press,
    parse_stranger,
)

log = structlog.get_logger("choir.gateway.telegram")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0

# Limits of Telegram.
MAX_COMMANDS = 100
MAX_SUMMARY = 256
MAX_UNKNOWN_GROUPS = 100

UpdateContent = InboundMessage | ButtonPress | Stranger


class CommandMenu:
    """Command menus of one bot, by configured user or group.

    Telegram stores a menu per chat, so strangers, whom the bot ignores, see none.
    """

    def __init__(self, bot: Bot, conversations: ConversationDirectory) -> None:
        self._bot = bot
        self._conversations = conversations
        self._menus: dict[int, tuple[BotCommand, ...]] = {}

    async def show(self, dm: DmBinding) -> None:
        """Send a user the current menu if it has changed; after a failure the next call tries again."""
        menu = self._for(dm)
        chat = parse_chat(dm.address)
        if not menu or chat is None or self._menus.get(chat.chat_id) == menu:
            return
        try:
            await self._bot.set_my_commands(menu, BotCommandScopeChat(chat.chat_id))
        except TelegramError as error:
            # A user who never wrote to the bot has no chat yet.
            log.debug("menu not set", dm=dm.name, error=error.message)
            return
        self._menus[chat.chat_id] = menu

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
        strangers: StrangerReplies,
    ) -> None:
        self._bot = bot
        self._gateway = gateway
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._menu = menu
        self._acknowledger = acknowledger
        self._strangers = strangers
        self._me: User | None = None
        self._unknown_groups: set[int] = set()

    async def prepare(self) -> None:
        """Ask for the bot's own name if it serves groups; raises the errors of the library."""
        if self._me is None and self._conversations.has_groups(self._gateway):
            self._me = await self._bot.get_me()

    def parse(self, update: Update) -> UpdateContent | None:
        """Return the content of an update; None for what is not for the agent."""
        if update.callback_query is not None:
            return parse_press(update.callback_query, self._gateway)
        self._log_unknown_group(update.effective_chat)
        message = parse_message(update, self._gateway, self._conversations, self._me)
        return message or parse_stranger(update, self._gateway, self._conversations)

    def _log_unknown_group(self, chat: Chat | None) -> None:
        """Log the id of a group once if it is not configured; the group gets no answer."""
        if chat is None or chat.type not in GROUPS or chat.id in self._unknown_groups:
            return
        groups = (dm.chat_id for dm in self._conversations.by_name.values())
        if str(chat.id) not in groups and len(self._unknown_groups) < MAX_UNKNOWN_GROUPS:
            self._unknown_groups.add(chat.id)
            log.info("group not configured", gateway=self._gateway, chat_id=chat.id)

    async def handle(self, content: UpdateContent | None) -> None:
        """Store the content of an update, retrying while control is unavailable."""
        match content:
            case InboundMessage():
                await self._accept(content)
            case ButtonPress():
                await self._press(content)
            case Stranger():
                self._strangers.add(content)
            case None:
                pass
            case _:
                assert_never(content)

    async def _accept(self, message: InboundMessage) -> None:
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(message), self._gateway
        )
        dm = self._conversations.by_name.get(message.dm)
        # The note of a repeated update was sent before.
        if acceptance is None or acceptance.duplicate or dm is None:
            return
        # A command is answered at once, and the message that an edit corrects has its reaction.
        if acceptance.command is None and message.edits is None:
            self._acknowledger.add(dm.address, message.message_id)
        if acceptance.note is not None:
            self._notes.add(_address_of_answer(dm, message), acceptance.note)
        await self._menu.show(dm)

    async def _press(self, press: ButtonPress) -> None:
        """Send the press to control, then show its answer; control edits the message through its outbox."""
        response = await repeat_until_accepted(lambda: self._control.press(press), self._gateway)
        answer = response.answer if response else None
        try:
            await self._bot.answer_callback_query(press.callback_id, answer)
        except TelegramError as error:
            # Too late for the short answer; the decision is visible in the conversation.
            log.info("press not answered", gateway=self._gateway, error=error.message)


def _address_of_answer(dm: DmBinding, message: InboundMessage) -> str:
    """Return where a note about a message goes: to the topic of a group in which it was written."""
    question = parse_message_id(message.message_id)
    if dm.chat_id and not dm.topic and question is not None and question.topic is not None:
        return f"{dm.chat_id}/{question.topic}"
    return dm.address

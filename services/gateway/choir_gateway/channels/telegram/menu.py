"""Show each configured user the commands they may type. Called by channel.py.

The menu belongs to a chat: a stranger, who is ignored in silence, sees none.
"""

import structlog
from telegram import Bot, BotCommand, BotCommandScopeChat
from telegram.error import TelegramError

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.port import Contacts
from choir_gateway.channels.telegram.updates import menu_name

log = structlog.get_logger("choir.gateway.telegram")

# Telegram's own bounds
MAX_COMMANDS = 100
MAX_SUMMARY = 256


class Menu:
    """The menus of one bot, by user."""

    def __init__(self, bot: Bot, contacts: Contacts) -> None:
        self._bot = bot
        self._contacts = contacts
        self._shown: dict[str, tuple[BotCommand, ...]] = {}

    async def show(self, dm: DmBinding) -> None:
        """See to it that a user has the menu of now; a failure waits for the next occasion."""
        wanted = self._for(dm)
        if not wanted or self._shown.get(dm.user_id) == wanted or not dm.user_id.isdigit():
            return
        try:
            await self._bot.set_my_commands(wanted, BotCommandScopeChat(int(dm.user_id)))
        except TelegramError as error:
            # who never wrote to the bot has no chat yet
            log.debug("menu not set", dm=dm.name, reason=error.message)
            return
        self._shown[dm.user_id] = wanted

    def _for(self, dm: DmBinding) -> tuple[BotCommand, ...]:
        commands = {
            menu_name(command): BotCommand(menu_name(command), command.summary[:MAX_SUMMARY])
            for command in reversed(self._contacts.commands)
            if dm.admin or not command.admin
        }
        return tuple(reversed(commands.values()))[:MAX_COMMANDS]

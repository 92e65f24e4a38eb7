"""The menu of commands of each configured user.

Telegram stores a menu per chat, so strangers, whom the bot ignores, see none.
"""

import structlog
from telegram import Bot, BotCommand, BotCommandScopeChat
from telegram.error import TelegramError

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.telegram.update_parser import menu_name

log = structlog.get_logger("choir.gateway.telegram")

# Limits of Telegram.
MAX_COMMANDS = 100
MAX_SUMMARY = 256


class CommandMenu:
    """Command menus of one bot, by user."""

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
            log.debug("menu not set", dm=dm.name, reason=error.message)
            return
        self._menus[dm.user_id] = menu

    def _for(self, dm: DmBinding) -> tuple[BotCommand, ...]:
        commands = {
            menu_name(command): BotCommand(menu_name(command), command.summary[:MAX_SUMMARY])
            for command in reversed(self._conversations.commands)
            if dm.admin or not command.admin
        }
        return tuple(reversed(commands.values()))[:MAX_COMMANDS]

"""A scripted Telegram group, in which users write, mention the bot and press buttons.

Made by `FakeTelegram.group`. The bot gets all messages, as with privacy mode off.
"""

import asyncio
import re
from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.telegram.accounts import Bot, Group, InlineButton, SentMessage
from choir_testing.telegram.bot_api_json import message_json

# What Telegram's clients mark in a text.
_ENTITIES = (("mention", re.compile(r"@\w{4,32}")), ("bot_command", re.compile(r"/\w+(?:@\w+)?")))


@dataclass(frozen=True, slots=True)
class GroupUser:
    """A user who writes in a group."""

    user_id: int
    first_name: str
    is_bot: bool = False

    def as_json(self) -> JsonObject:
        """Return the user as Bot API JSON."""
        return {"id": self.user_id, "is_bot": self.is_bot, "first_name": self.first_name}


@dataclass(slots=True)
class FakeGroup:
    """A group and the bot in it."""

    bot: Bot
    chat: Group

    async def send(
        self,
        user: GroupUser,
        text: str,
        *,
        topic: int | None = None,
        reply_to: SentMessage | None = None,
        as_group: bool = False,
        names_bot: str = "",
    ) -> int:
        """Send a message; return the id of its update.

        `as_group` hides who wrote it. `names_bot` is a part of the text that mentions the bot without its
        user name.
        """
        message = SentMessage(
            self.bot.new_message_id(),
            False,
            text,
            topic=topic,
            reply_to=reply_to.message_id if reply_to else None,
            sender=user.as_json(),
            entities=(*_find_entities(text), *self._text_mention(text, names_bot)),
        )
        self.chat.messages[message.message_id] = message
        body = message_json(self.bot, self.chat, message)
        if as_group:
            body["sender_chat"] = self.chat.as_json()
        return self.bot.mailbox.put("message", body)

    async def press(self, user: GroupUser, message: SentMessage, button: InlineButton) -> str:
        """Press a button below a message of the group; return the id of the press."""
        query = f"query-{len(self.bot.mailbox.history) + 1}"
        self.bot.open_queries.add(query)
        body: JsonObject = {
            "id": query,
            "from": user.as_json(),
            "chat_instance": str(self.chat.user_id),
            "message": message_json(self.bot, self.chat, message),
            "data": button.callback_data,
        }
        self.bot.mailbox.put("callback_query", body)
        return query

    async def receive(self, timeout: float = 60.0) -> SentMessage:
        """Wait for the bot's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.chat.new_messages.get()

    async def until_confirmed(self, update_id: int, timeout: float = 60.0) -> None:
        """Wait until the bot has confirmed an update to Telegram. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.bot.mailbox.confirmed(update_id)

    def last_sent(self) -> SentMessage:
        """Return the newest message of a user."""
        return [m for m in self.chat.messages.values() if not m.from_bot][-1]

    def _text_mention(self, text: str, name: str) -> tuple[JsonObject, ...]:
        if not name:
            return ()
        entity = _entity("text_mention", text, text.index(name), name)
        return ({**entity, "user": self.bot.as_json()},)


def _find_entities(text: str) -> tuple[JsonObject, ...]:
    return tuple(
        _entity(kind, text, match.start(), match[0])
        for kind, pattern in _ENTITIES
        for match in pattern.finditer(text)
        if match.start() == 0 or text[match.start() - 1].isspace()
    )


def _entity(kind: str, text: str, start: int, content: str) -> JsonObject:
    return {"type": kind, "offset": _utf16(text[:start]), "length": _utf16(content)}


def _utf16(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text.encode("utf-16-le")) // 2

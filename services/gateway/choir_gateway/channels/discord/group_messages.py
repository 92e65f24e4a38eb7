"""Messages in servers: which of them are for the agent, and what their text is. Pure.

Used by `message_parser`. Mentions of others stay as Discord writes them, `<@ID>`: a name is chosen by its
user, and in the text of somebody else it would read as that person's word.
"""

import re
from dataclasses import dataclass

import discord

from choir_common.wire.messages import DmBinding
from choir_common.wire.speakers import GroupMember

# What people write between the mention of a bot and their text.
AFTER_MENTION = " \t\n,:;"


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """A message in a server that is for the agent."""

    author: GroupMember
    text: str
    """Without the mention of the bot at its beginning."""


def read_server_message(message: discord.Message, dm: DmBinding, me: int) -> ServerMessage | None:
    """Return a message that is for the agent; None for all others. `me` is the bot's user id."""
    author = message.author
    if author.bot or message.webhook_id is not None:
        return None
    is_mention = any(user.id == me for user in message.mentions)
    if not is_mention and not _is_answer_to(message, me) and dm.answers != "all":
        return None
    member = GroupMember(user_id=str(author.id), name=author.display_name)
    return ServerMessage(member, _strip(message.content, me))


def _is_answer_to(message: discord.Message, me: int) -> bool:
    reference = message.reference
    earlier = reference.resolved if reference is not None else None
    is_reply = message.type is discord.MessageType.reply
    return is_reply and isinstance(earlier, discord.Message) and earlier.author.id == me


def _strip(text: str, me: int) -> str:
    """Return a text without a mention at its beginning, unless nothing else is in it."""
    first = re.match(rf"\s*<@!?{me}>", text)
    return text[first.end() :].lstrip(AFTER_MENTION) or text if first else text

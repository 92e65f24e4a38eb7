"""Messages of groups: which of them are for the agent, and what their text is. Pure.

Used by `update_parser`. Messages of bots, and those that a group or channel wrote in its own name, are never
for the agent: nobody could have rights by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from telegram import Message, MessageEntity, User
from telegram.constants import ChatType

from choir_common.wire.messages import DmBinding
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.interface import ConversationDirectory

GROUPS = (ChatType.GROUP, ChatType.SUPERGROUP)
# What people write between the mention of a bot and their text.
AFTER_MENTION = " \t\n,:;"


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """A message of a group that is for the agent."""

    dm: DmBinding
    author: GroupMember
    text: str
    """Without the bot's name at its beginning."""


def read_group_message(
    message: Message, gateway: str, contacts: ConversationDirectory, me: User | None
) -> GroupMessage | None:
    """Return a message that is for the agent; None for all others.

    `me` is the bot; while it is unknown, no message is for it.
    """
    author = message.from_user
    if me is None or author is None or author.is_bot or message.sender_chat is not None:
        return None
    dm = contacts.find_group(gateway, str(message.chat.id), str(topic_of(message) or ""))
    if dm is None:
        return None
    text = message.text or message.caption or ""
    entities = message.parse_entities() if message.text else message.parse_caption_entities()
    command = _find_command(entities)
    name, _, target = command.partition("@")
    if target and target.casefold() != (me.username or "").casefold():
        return None
    mentions = {entity: name for entity, name in entities.items() if _is_mention(entity, name, me)}
    is_addressed = bool(command or mentions) or _is_answer_to(message, me)
    if not is_addressed and dm.answers != "all":
        return None
    if command:
        text = name + text[len(command) :]
    return GroupMessage(
        dm, GroupMember(user_id=str(author.id), name=author.full_name), _strip(text, mentions)
    )


def topic_of(message: Message) -> int | None:
    """Return the topic of a message, or None for the general one and outside of forums."""
    # Outside of forums, a thread is only a chain of replies.
    return message.message_thread_id if message.is_topic_message else None


def find_replied(message: Message) -> Message | None:
    """Return the message that this one answers.

    In a topic, messages that answer nothing refer to the message that created the topic.
    """
    replied = message.reply_to_message
    return None if replied is None or replied.forum_topic_created is not None else replied


def _find_command(entities: Mapping[MessageEntity, str]) -> str:
    commands = (
        text
        for entity, text in entities.items()
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0
    )
    return next(commands, "")


def _is_mention(entity: MessageEntity, text: str, me: User) -> bool:
    if entity.type == MessageEntity.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    return (
        entity.type == MessageEntity.MENTION
        and text.casefold() == f"@{me.username or ''}".casefold()
    )


def _is_answer_to(message: Message, me: User) -> bool:
    replied = find_replied(message)
    return replied is not None and replied.from_user is not None and replied.from_user.id == me.id


def _strip(text: str, mentions: Mapping[MessageEntity, str]) -> str:
    """Return a text without a mention at its beginning, unless nothing else is in it."""
    first = next((name for entity, name in mentions.items() if entity.offset == 0), "")
    return text[len(first) :].lstrip(AFTER_MENTION) or text if first else text

"""Messages of channels: whose conversation they belong to, and which of them are for the agent. Pure.

Called by `receiver`. Messages of apps are never for the agent: nobody could have rights by them. Slack
repeats a mention as `app_mention`, sometimes without its files, so only the event `message` is read.
"""

import re

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.slack.message_parser import is_users
from choir_gateway.channels.slack.payloads import BotIdentity, MessageObject
from choir_gateway.channels.slack.read_marks import SlackReadMark

GROUP_TYPES = ("channel", "group")
"""The types of public and of private channels."""
SLACKBOT = "USLACKBOT"
# What people write between the mention of a bot and their text.
AFTER_MENTION = " \t\n,:;"


def find_group_dm(
    message: MessageObject, channel: str, gateway: str, conversations: ConversationDirectory
) -> DmBinding | None:
    """Return the conversation of a person's message in a channel; None for all other messages."""
    if not is_users(message) or message.user in (None, SLACKBOT):
        return None
    return conversations.find_group(gateway, channel, message.thread or "")


def is_for_agent(
    message: MessageObject, dm: DmBinding, *, me: BotIdentity, mark: SlackReadMark
) -> bool:
    """Return whether a message mentions the bot, or is in a thread that it began or was asked in."""
    if not me.user_id or message.user == me.user_id:
        return False
    if dm.answers == "all" or mark.is_heard(message.ts):
        return True
    is_in_own_thread = message.thread is not None and (
        message.parent_user_id == me.user_id or message.thread in mark.threads
    )
    return is_in_own_thread or _mention(me).search(message.text or "") is not None


def remove_mention(text: str, me: BotIdentity) -> str:
    """Return a text without a mention of the bot at its beginning; other ones show the bot's name."""
    if not me.user_id:
        return text
    mention = _mention(me)
    first = mention.match(text.lstrip())
    rest = text.lstrip()[first.end() :].lstrip(AFTER_MENTION) if first else ""
    name = me.user or me.user_id
    return mention.sub(lambda _: f"<@{me.user_id}|{name}>", rest or text)


def _mention(me: BotIdentity) -> re.Pattern[str]:
    # Slack escapes what a user types, so only Slack writes this sequence.
    return re.compile(rf"<@{re.escape(me.user_id)}(?:\|[^<>]*)?>")

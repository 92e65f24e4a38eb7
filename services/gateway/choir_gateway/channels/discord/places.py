"""Where the messages of a conversation are: direct messages, or a channel of a server with its threads. Pure.

The address of direct messages is the user id; that of a channel is `CHANNEL`, or `CHANNEL/THREAD` for one of
its threads. A message in a thread has the id `THREAD/MESSAGE`, so that an answer to it can go to its thread.
"""

import re
from dataclasses import dataclass

import discord

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.interface import ConversationDirectory

_ADDRESS = re.compile(r"[0-9]{1,32}(?:/[0-9]{1,32})?")
_MESSAGE = re.compile(r"(?:([0-9]{1,32})/)?([0-9]{1,32})")


@dataclass(frozen=True, slots=True)
class DiscordPlace:
    """A conversation, and for a group where in it a message is."""

    dm: DmBinding
    channel_id: str = ""
    """Of a server; empty for direct messages."""
    thread_id: str = ""
    """The thread of the channel; empty for the channel itself."""

    @property
    def is_group(self) -> bool:
        """Return whether it is a channel of a server."""
        return bool(self.channel_id)

    @property
    def address(self) -> str:
        """Return where notes about a message go."""
        if not self.is_group:
            return self.dm.user_id
        return f"{self.channel_id}/{self.thread_id}" if self.thread_id else self.channel_id

    @property
    def mark(self) -> str:
        """Return the name of the read mark."""
        if self.thread_id:
            return f"thread {self.thread_id}"
        return f"channel {self.channel_id}" if self.is_group else self.dm.user_id


def find_place(
    message: discord.Message, gateway: str, conversations: ConversationDirectory
) -> DiscordPlace | None:
    """Return the place of a message; None if it is no configured conversation, and for bots and webhooks."""
    if message.author.bot or message.webhook_id is not None:
        return None
    channel = message.channel
    if isinstance(channel, discord.DMChannel):
        dm = conversations.find(gateway, str(message.author.id))
        return DiscordPlace(dm) if dm is not None else None
    if isinstance(channel, discord.Thread):
        channel_id, thread_id = str(channel.parent_id), str(channel.id)
    else:
        channel_id, thread_id = str(channel.id), ""
    dm = conversations.find_group(gateway, channel_id, thread_id)
    return DiscordPlace(dm, channel_id, thread_id) if dm is not None else None


def list_places(gateway: str, conversations: ConversationDirectory) -> list[DiscordPlace]:
    """Return the places of all configured conversations; threads only if they have a conversation."""
    return [
        DiscordPlace(dm, dm.chat_id, dm.topic)
        for dm in conversations.by_name.values()
        if dm.gateway == gateway and is_address(dm.address)
    ]


def is_address(address: str) -> bool:
    """Return whether Discord has such addresses."""
    return _ADDRESS.fullmatch(address) is not None


def address_of_answer(address: str, reply_to: str | None) -> str:
    """Return the address of an answer: that of the conversation, or the thread of the question."""
    question = _MESSAGE.fullmatch(reply_to or "")
    if question is None or question[1] is None:
        return address
    return f"{address.partition('/')[0]}/{question[1]}"


def parse_message_id(text: str | None) -> str | None:
    """Return Discord's id of a message without its thread; None if it is not Discord's."""
    match = _MESSAGE.fullmatch(text or "")
    return match and match[2]

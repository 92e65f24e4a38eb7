"""Addresses of chats and messages on Telegram, as text. Pure.

A chat is `7` (a private chat), `-100123` (a group) or `-100123/45` (a topic of a group). A message is `99`,
or `45/99` in a topic, so that an answer to it can go to its topic.
"""

import re
from dataclasses import dataclass

_CHAT = re.compile(r"(-?[0-9]{1,19})(?:/([0-9]{1,19}))?")
_MESSAGE = re.compile(r"(?:([0-9]{1,19})/)?([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class ChatAddress:
    """A chat, and one of its topics."""

    chat_id: int
    topic: int | None = None
    """None: no topic, or the general one."""

    @property
    def is_group(self) -> bool:
        """Return whether it is a group; Telegram gives groups negative ids."""
        return self.chat_id < 0


@dataclass(frozen=True, slots=True)
class MessageAddress:
    """A message of a chat, and the topic that it is in."""

    message_id: int
    topic: int | None = None


def parse_chat(address: str) -> ChatAddress | None:
    """Return the chat of an address, or None if Telegram has no such address."""
    match = _CHAT.fullmatch(address)
    return match and ChatAddress(int(match[1]), int(match[2]) if match[2] else None)


def chat_of(address: str) -> ChatAddress:
    """Return the chat of an address that was checked before."""
    chat = parse_chat(address)
    if chat is None:
        raise ValueError(f"{address!r} is not the address of a chat.")
    return chat


def parse_message_id(text: str | None) -> MessageAddress | None:
    """Return the message of an id, or None if Telegram has no such id."""
    match = _MESSAGE.fullmatch(text or "")
    return match and MessageAddress(int(match[2]), int(match[1]) if match[1] else None)


def format_message_id(message_id: int, topic: int | None) -> str:
    """Return the id of a message as text."""
    return str(message_id) if topic is None else f"{topic}/{message_id}"

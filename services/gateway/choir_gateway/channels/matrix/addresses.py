"""Addresses of users, groups and messages on Matrix, as text. Pure.

A user is `@ann:example.org`, a group the id of its room, `!abc:example.org`, and a thread of it
`!abc:example.org/$root`. A message of a group is `$event`, or `$root/$event` in a thread, so that an answer
to it can go to its thread.
"""

import re
from dataclasses import dataclass

from choir_common.wire.messages import MAX_MESSAGE_ID

_USER = re.compile(r"@[^\s:]+:[^\s]+")
_GROUP = re.compile(r"(![^\s/]+)(?:/(\$\S+))?")


@dataclass(frozen=True, slots=True)
class MatrixGroup:
    """A room with several people, and one of its threads."""

    room_id: str
    thread: str | None = None
    """The first message of the thread; None: no thread."""


@dataclass(frozen=True, slots=True)
class MatrixMessageId:
    """A message, and the thread of a group that it is in."""

    event_id: str
    thread: str | None = None


def is_address(address: str) -> bool:
    """Return whether Matrix could have a user or a group of this address."""
    return _USER.fullmatch(address) is not None or parse_group(address) is not None


def parse_group(address: str) -> MatrixGroup | None:
    """Return the group of an address, or None for the address of a user."""
    match = _GROUP.fullmatch(address)
    return match and MatrixGroup(match[1], match[2])


def format_group(room_id: str, thread: str | None) -> str:
    """Return the address of a group, or of one of its threads."""
    return room_id if thread is None else f"{room_id}/{thread}"


def parse_message_id(text: str | None) -> MatrixMessageId | None:
    """Return the message of an id, or None if it is not Matrix's."""
    if text is None or not text.startswith("$"):
        return None
    # The ids of old rooms may contain a slash, but no second dollar sign.
    thread, _, event = text.rpartition("/$")
    return MatrixMessageId(f"${event}", thread) if thread else MatrixMessageId(text)


def format_message_id(event_id: str, thread: str | None) -> str:
    """Return the id of a message as text; without the thread if both are too long for control."""
    text = event_id if thread is None else f"{thread}/{event_id}"
    return text if len(text) <= MAX_MESSAGE_ID else event_id

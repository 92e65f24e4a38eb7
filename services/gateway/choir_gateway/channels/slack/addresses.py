"""Addresses of channels, threads and messages on Slack, as text. Pure.

A channel is `C012AB3CD`, a thread of it `C012AB3CD/1700000000.000100`, and any other address is a user. A
message of a channel is `1700000000.000200`, or `1700000000.000100/1700000000.000200` in a thread, so that an
answer to it can go to its thread.
"""

import re
from dataclasses import dataclass

_TS = r"[0-9]{1,12}\.[0-9]{1,9}"
_GROUP = re.compile(rf"([CG][A-Z0-9]{{1,31}})(?:/({_TS}))?")
_MESSAGE = re.compile(rf"(?:({_TS})/)?({_TS})")


@dataclass(frozen=True, slots=True)
class SlackGroup:
    """A channel, and one of its threads."""

    channel: str
    thread: str | None = None
    """The first message of the thread; None: no thread."""


@dataclass(frozen=True, slots=True)
class SlackMessageId:
    """A message of a channel, and the thread that it is in."""

    ts: str
    thread: str | None = None

    @property
    def root(self) -> str:
        """The first message of the thread in which an answer belongs."""
        return self.thread or self.ts


def parse_group(address: str) -> SlackGroup | None:
    """Return the channel of an address, or None for the address of a user."""
    match = _GROUP.fullmatch(address)
    return match and SlackGroup(match[1], match[2])


def parse_message_id(text: str | None) -> SlackMessageId | None:
    """Return the message of an id, or None if Slack has no such id."""
    match = _MESSAGE.fullmatch(text or "")
    return match and SlackMessageId(match[2], match[1])


def format_message_id(ts: str, thread: str | None) -> str:
    """Return the id of a message as text."""
    return ts if thread is None else f"{thread}/{ts}"

"""Addresses of people, groups and messages on Signal, as text. Pure.

A person is a phone number (`+4917012345678`), or the id of the account (a UUID, with or without hyphens). A
group is `group.` and 60 characters. A message is its time in milliseconds, `1700000000000`, if the agent's
account sent it, and else `1700000000000/AUTHOR` with the author's id without hyphens: only both together are
unique.
"""

import re
from dataclasses import dataclass

NUMBER_PATTERN = r"\+[1-9][0-9]{6,14}"
_NUMBER = re.compile(NUMBER_PATTERN)
_ID = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}(?:\1[0-9a-fA-F]{4}){2}\1[0-9a-fA-F]{12}")
_GROUP = re.compile(r"group\.[A-Za-z0-9+/]{59}=")
_MESSAGE = re.compile(r"([0-9]{1,15})(?:/([0-9a-f]{32}))?")


@dataclass(frozen=True, slots=True)
class SignalMessageId:
    """A message, by its time and author."""

    timestamp: int
    """In milliseconds."""
    author: str | None = None
    """The id of the account, without hyphens; None: the agent's own account."""

    def __str__(self) -> str:
        return str(self.timestamp) if self.author is None else f"{self.timestamp}/{self.author}"


def parse_message_id(text: str | None) -> SignalMessageId | None:
    """Return the message of an id, or None if Signal has no such id."""
    match = _MESSAGE.fullmatch(text or "")
    return match and SignalMessageId(int(match[1]), match[2])


def is_group(address: str) -> bool:
    """Return whether an address is that of a group."""
    return _GROUP.fullmatch(address) is not None


def is_address(address: str) -> bool:
    """Return whether a text is the address of a person or a group."""
    return bool(_NUMBER.fullmatch(address) or _ID.fullmatch(address)) or is_group(address)


def is_number(address: str) -> bool:
    """Return whether an address is a phone number."""
    return _NUMBER.fullmatch(address) is not None


def compact_id(account_id: str) -> str | None:
    """Return the id of an account without hyphens, or None for another text."""
    return account_id.replace("-", "").lower() if _ID.fullmatch(account_id) else None


def hyphenate(account_id: str) -> str:
    """Return an id without hyphens in the form of Signal."""
    parts = (account_id[:8], account_id[8:12], account_id[12:16], account_id[16:20])
    return "-".join((*parts, account_id[20:]))


def recipient_of(address: str) -> str:
    """Return an address as signal-cli takes it."""
    compact = compact_id(address)
    return hyphenate(compact) if compact else address

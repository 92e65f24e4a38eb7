"""Fake Telegram for tests: the Bot API over real HTTP, with scriptable users.

Owns bots by token, chats, the update queue with Telegram's offset rule, files and scripted failures. It
never contacts api.telegram.org and imports no Telegram library, so that it is an independent test of ours.
"""

from choir_testing.telegram.accounts import InlineButton, SentMessage
from choir_testing.telegram.faults import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from choir_testing.telegram.group import FakeGroup, GroupUser
from choir_testing.telegram.server import FakeTelegram, run_fake_telegram
from choir_testing.telegram.user import FakeUser

__all__ = [
    "Delay",
    "DisconnectAfter",
    "DisconnectBefore",
    "ErrorResponse",
    "FakeGroup",
    "FakeTelegram",
    "FakeUser",
    "GroupUser",
    "InlineButton",
    "NoFault",
    "SentMessage",
    "TooManyRequests",
    "run_fake_telegram",
]

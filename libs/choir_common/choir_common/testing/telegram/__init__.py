"""A Telegram of our own for tests: the Bot API over real HTTP, with users that can be scripted.

Owns: bots by token, chats, the update queue with Telegram's offset rule, files, scripted failures.
Never: speaks to api.telegram.org, nor imports any Telegram library (so that it judges ours fairly).

Ladder: server > webhook | user > methods > media > shapes > accounts > mailbox | traffic > faults.
"""

from choir_common.testing.telegram.accounts import Button, SentMessage
from choir_common.testing.telegram.faults import DropAfter, DropBefore, Flood, Pass, Refuse, Slow
from choir_common.testing.telegram.server import FakeTelegram, run_fake_telegram
from choir_common.testing.telegram.user import FakeUser

__all__ = [
    "Button",
    "DropAfter",
    "DropBefore",
    "FakeTelegram",
    "FakeUser",
    "Flood",
    "Pass",
    "Refuse",
    "SentMessage",
    "Slow",
    "run_fake_telegram",
]

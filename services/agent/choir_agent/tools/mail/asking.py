"""What can be asked of a mailbox. Made by the mail tools, answered by `imap`."""

import datetime
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """Which messages of a folder are meant; what is none does not matter."""

    since_uid: int | None = None
    """Those after it."""
    since_date: datetime.date | None = None
    before_date: datetime.date | None = None
    unread: bool = False
    sender: str | None = None
    to: str | None = None
    subject: str | None = None
    text: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Extract:
    """What is wanted of one message."""

    uid: int
    offset: int = 0
    """Where in its text to begin."""
    save_attachments: bool = False
    mark_read: bool = False

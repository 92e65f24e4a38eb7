"""Requests to a mailbox. Created by the mail tools, executed by `imap`."""

import datetime
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """Search criteria for the messages of a folder; None means no restriction."""

    since_uid: int | None = None
    """Messages with a greater UID."""
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
    """The parts of one message to return."""

    uid: int
    offset: int = 0
    """Character of its text at which to start."""
    save_attachments: bool = False
    mark_read: bool = False

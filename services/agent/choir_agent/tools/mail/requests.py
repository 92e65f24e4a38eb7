"""Requests to a mailbox, parsed from the arguments of `choir.email.check` and `choir.email.receive`. Pure."""

import datetime
import re
from dataclasses import dataclass

from choir_agent.tools.tool import ToolFailed
from choir_common.wire.model import JsonObject


@dataclass(frozen=True, slots=True)
class MailQuery:
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
class MessageRequest:
    """The parts of one message to return."""

    uid: int
    offset: int = 0
    """Character of its text at which to start."""
    save_attachments: bool = False
    mark_read: bool = False


INBOX = "INBOX"
FOLDER: JsonObject = {"type": "string", "minLength": 1, "maxLength": 200}
# Characters that would end a command of the protocol.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parse_folder(arguments: JsonObject) -> str:
    """Return the folder in the arguments; the inbox by default."""
    return _text(arguments, "folder") or INBOX


def parse_query(arguments: JsonObject) -> MailQuery:
    """Return the search criteria.

    Raises ToolFailed for an invalid date, or texts with control characters.
    """
    return MailQuery(
        since_uid=parse_int(arguments, "since_uid"),
        since_date=_day(arguments, "since_date"),
        before_date=_day(arguments, "before_date"),
        unread=arguments.get("unread") is True,
        sender=_text(arguments, "from"),
        to=_text(arguments, "to"),
        subject=_text(arguments, "subject"),
        text=_text(arguments, "contains"),
        message_id=_text(arguments, "message_id"),
    )


def parse_int(arguments: JsonObject, name: str) -> int | None:
    """Return an integer argument, or None; JSON Schema accepts 3.0 as an integer."""
    value = arguments.get(name)
    return int(value) if isinstance(value, int | float) else None


def _text(arguments: JsonObject, name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if _CONTROL.search(str(value)):
        raise ToolFailed("bad_input", f"{name} contains a line break or another control character.")
    return str(value)


def _day(arguments: JsonObject, name: str) -> datetime.date | None:
    value = _text(arguments, name)
    try:
        return None if value is None else datetime.date.fromisoformat(value)
    except ValueError as error:
        raise ToolFailed("bad_input", f"{name} is not a date; use YYYY-MM-DD.") from error

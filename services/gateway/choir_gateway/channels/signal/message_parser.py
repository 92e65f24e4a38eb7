"""Parsing of what a configured person sent: text, files, quotation. Pure; called by `receiver`."""

import mimetypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from choir_common.wire.attachments import (
    ANY_MIME,
    MAX_FILE_NAME,
    MAX_FILES,
    Attachment,
    AttachmentKind,
)
from choir_common.wire.messages import (
    MAX_QUOTE,
    MAX_TEXT,
    DmBinding,
    InboundMessage,
    QuotedMessage,
)
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.signal.addresses import SignalMessageId, compact_id
from choir_gateway.channels.signal.envelopes import (
    SignalAttachment,
    SignalContent,
    SignalMention,
)
from choir_gateway.channels.signal.files import ATTACHMENT_ID

DELETED_TEXT = "[The user deleted this message.]"
VIEW_ONCE_TEXT = "[The user sent a view-once file, which Choir does not open.]"
KINDS: dict[str, AttachmentKind] = {"image": "photo", "audio": "audio", "video": "video"}
# What people write between the mention of somebody and their text.
AFTER_MENTION = " \t\n,:;"


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The agent's account."""

    number: str
    account_id: str = ""
    """Without hyphens; empty until it is known."""

    def is_self(self, number: str | None, uuid: str | None) -> bool:
        """Return whether a number or an id is the account's own."""
        own_id = bool(self.account_id) and compact_id(uuid or "") == self.account_id
        return number == self.number or own_id


@dataclass(frozen=True, slots=True)
class MessageSource:
    """Where a message comes from, and which one it is."""

    gateway: str
    dm: DmBinding
    message: SignalMessageId
    """With its own time."""
    first: SignalMessageId
    """The first version of an edited message; else the message itself."""
    is_edit: bool
    author: GroupMember | None = None

    @property
    def update_id(self) -> str:
        """The id by which a repetition is recognised."""
        return str(self.message)


def parse_content(
    content: SignalContent, source: MessageSource, me: OwnAccount, quoted: QuotedMessage | None
) -> InboundMessage:
    """Return a message or an edit as control takes it."""
    files = () if content.view_once else tuple(_attachments(content.attachments))
    text = read_text(content, me, strips_own=source.author is not None)
    if content.view_once:
        text = "\n".join(filter(None, (text, VIEW_ONCE_TEXT)))
    elif len(content.attachments) > MAX_FILES:
        excess = len(content.attachments) - MAX_FILES
        text = f"{text}\n[{excess} more files were not taken; a message has at most {MAX_FILES}.]"
    return InboundMessage(
        gateway=source.gateway,
        dm=source.dm.name,
        update_id=source.update_id,
        text=text[:MAX_TEXT] if text or files else _describe(content),
        sent_at=read_time(content.timestamp),
        attachments=files[:MAX_FILES],
        message_id=str(source.first),
        edits=str(source.first) if source.is_edit else None,
        reply_to=quoted,
        author=source.author,
    )


def parse_deletion(content: SignalContent, source: MessageSource) -> InboundMessage:
    """Return the deletion of a message as an edit of it."""
    return InboundMessage(
        gateway=source.gateway,
        dm=source.dm.name,
        update_id=source.update_id,
        text=DELETED_TEXT,
        sent_at=read_time(content.timestamp),
        message_id=str(source.first),
        edits=str(source.first),
        author=source.author,
    )


def read_text(content: SignalContent, me: OwnAccount, *, strips_own: bool = False) -> str:
    """Return the text with the names of mentioned people; `strips_own`: without a first own one."""
    # Positions are in UTF-16 units.
    units = (content.message or "").encode("utf-16-le")
    pieces, at, is_stripped = list[str](), 0, False
    for mention in sorted(content.mentions, key=lambda it: it.start):
        before = _decode(units, at, mention.start)
        pieces.append(before)
        is_first = not "".join(pieces).strip()
        if strips_own and is_first and me.is_self(mention.number, mention.uuid):
            is_stripped = True
        else:
            pieces.append(f"@{_name(mention)}")
        at = max(at, mention.start + mention.length)
    text = "".join((*pieces, _decode(units, at, len(units) // 2)))
    return text.lstrip(AFTER_MENTION) if is_stripped else text


def make_quote(message_id: str, text: str | None) -> QuotedMessage:
    """Return the message to which one replies."""
    return QuotedMessage(message_id=message_id, text=(text or "")[:MAX_QUOTE])


def read_time(timestamp: int) -> datetime:
    """Return the time of a message; a time in the future is now."""
    now = datetime.now(UTC)
    return datetime.fromtimestamp(min(timestamp / 1000, now.timestamp()), UTC)


def _decode(units: bytes, start: int, end: int) -> str:
    return units[2 * start : 2 * end].decode("utf-16-le", errors="replace")


def _name(mention: SignalMention) -> str:
    return mention.number or mention.uuid or mention.name or "somebody"


def _attachments(files: Sequence[SignalAttachment]) -> Iterator[Attachment]:
    for file in files:
        if file.id is None or ATTACHMENT_ID.fullmatch(file.id) is None:
            continue
        mime = (file.content_type or "").partition(";")[0].strip()[:127] or ANY_MIME
        kind = KINDS.get(mime.partition("/")[0], "document")
        # The envelope does not say that a recording is a voice message; other audio files have names.
        if kind == "audio" and not file.filename:
            kind = "voice"
        yield Attachment(
            name=(file.filename or f"{kind}{mimetypes.guess_extension(mime) or ''}")[
                -MAX_FILE_NAME:
            ],
            kind=kind,
            mime=mime,
            size=file.size if file.size is not None and file.size >= 0 else None,
            ref=file.id,
        )


def _describe(content: SignalContent) -> str:
    # Every message of a user reaches the agent, even if its content cannot be read.
    if content.sticker is not None:
        kind = "a sticker"
    elif content.contacts:
        kind = "a contact"
    elif content.poll is not None:
        kind = "a poll"
    else:
        kind = "something"
    return f"[The user sent {kind}, which cannot be read here.]"

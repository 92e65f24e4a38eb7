"""Parsing of users' messages and presses of buttons. Pure; called by `receiver`."""

import hashlib
import mimetypes
from collections.abc import Iterator
from datetime import UTC, datetime

from choir_common.wire.attachments import ANY_MIME, Attachment, AttachmentKind
from choir_common.wire.messages import (
    MAX_TEXT,
    ButtonPress,
    DmBinding,
    InboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.whatsapp.updates import (
    ContactContent,
    LocationContent,
    MediaContent,
    UserUpdate,
)

MAX_FIELD = 200
MAX_CONTACTS = 10
MAX_NAME = 255
IGNORED_TYPES = frozenset({"reaction", "system", "request_welcome", "revoke"})
"""They are not messages: reactions, changed numbers, opened chats, and deleted messages."""


def parse_message(update: UserUpdate, gateway: str, dm: DmBinding) -> InboundMessage:
    """Return the content of a user's message."""
    attachments = tuple(_attachments(update))
    text = _text(update)
    if not text and not attachments:
        text = _describe_other(update)
    context = update.context
    if context is not None and (context.forwarded or context.frequently_forwarded):
        text = f"[Forwarded] {text}".rstrip()
    quoted = QuotedMessage(message_id=context.id[:256]) if context and context.id else None
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=make_update_id(update),
        text=text[:MAX_TEXT],
        sent_at=datetime.fromtimestamp(update.timestamp, UTC),
        attachments=attachments,
        message_id=update.id,
        reply_to=quoted,
    )


def parse_press(update: UserUpdate, gateway: str, dm: DmBinding) -> ButtonPress | None:
    """Return the press of a button or the choice from a list; None for other messages."""
    interactive = update.interactive
    choice = (interactive.button_reply or interactive.list_reply) if interactive else None
    if choice is None:
        return None
    return ButtonPress(
        gateway=gateway,
        user_id=dm.user_id,
        # Control knows a DM by its user.
        chat_id=dm.user_id,
        data=choice.id[:64],
        message_id=update.context.id if update.context else None,
        callback_id=make_update_id(update),
    )


def make_update_id(update: UserUpdate) -> str:
    """Return the id by which control recognises a repeated update; it fits into a press, too."""
    return hashlib.sha256(update.id.encode()).hexdigest()


def _text(update: UserUpdate) -> str:
    media = update.image or update.video or update.document
    if update.text is not None:
        return update.text.body
    if media is not None:
        return media.caption
    if update.button is not None:
        return update.button.text
    if update.location is not None:
        return _describe_location(update.location)
    return "\n".join(_describe_contact(it) for it in update.contacts[:MAX_CONTACTS])


def _attachments(update: UserUpdate) -> Iterator[Attachment]:
    if update.image is not None:
        yield _attachment("photo", update.image, "photo")
    if update.video is not None:
        yield _attachment("video", update.video, "video")
    if update.audio is not None:
        kind: AttachmentKind = "voice" if update.audio.voice else "audio"
        yield _attachment(kind, update.audio, kind)
    if update.document is not None:
        yield _attachment("document", update.document, "file")


def _attachment(kind: AttachmentKind, media: MediaContent, name: str) -> Attachment:
    mime = media.mime_type.partition(";")[0].strip()[:127] or ANY_MIME
    suffix = ".ogg" if mime == "audio/ogg" else mimetypes.guess_extension(mime) or ""
    return Attachment(
        name=(media.filename or f"{name}{suffix}")[-MAX_NAME:],
        kind=kind,
        mime=mime,
        ref=media.id[:1_000] or "-",
    )


def _describe_location(location: LocationContent) -> str:
    position = f"latitude {location.latitude:.6f}, longitude {location.longitude:.6f}"
    if location.name or location.address:
        return f"[The user sent a place: {_line(location.name)}, {_line(location.address)}; {position}.]"
    return f"[The user sent a location: {position}.]"


def _describe_contact(contact: ContactContent) -> str:
    numbers = ", ".join(_line(it.phone) for it in contact.phones) or "unknown"
    return f"[The user sent a contact: {_line(contact.name.formatted_name)}, phone {numbers}.]"


def _describe_other(update: UserUpdate) -> str:
    # Every message of a user reaches the agent, even if its content cannot be read.
    kind = update.unsupported.type if update.unsupported else update.type
    if kind == "edit":
        return "[The user edited an earlier message. WhatsApp does not pass on the new text; ask for it.]"
    if kind == "sticker":
        return "[The user sent a sticker, which cannot be read here.]"
    return "[The user sent something, which cannot be read here.]"


def _line(text: str) -> str:
    """Return a field of the sender on one line, cut to a length that no name exceeds."""
    return " ".join(text.split())[:MAX_FIELD]

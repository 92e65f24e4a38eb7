"""Parsing of updates into messages and presses of configured users. Pure; called by `update_handler`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from telegram import CallbackQuery, Message, PhotoSize, Update, User

from choir_common.i18n import MAX_TAG
from choir_common.wire.attachments import ANY_MIME, Attachment, AttachmentKind
from choir_common.wire.messages import (
    MAX_QUOTE,
    ButtonPress,
    ChannelCommand,
    InboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.strangers import Stranger
from choir_gateway.channels.telegram.addresses import format_message_id
from choir_gateway.channels.telegram.group_messages import (
    GROUPS,
    find_replied,
    read_group_message,
    topic_of,
)
from choir_gateway.channels.telegram.shared_items import describe_shared_item, is_live_update

PRIVATE = "private"
ALLOWED_UPDATES = (Update.MESSAGE, Update.EDITED_MESSAGE, Update.CALLBACK_QUERY)
# Telegram sends no file names for some of these kinds.
DEFAULT_FILE_NAMES: dict[AttachmentKind, str] = {
    "photo": "photo.jpg",
    "voice": "voice.ogg",
    "audio": "audio",
    "video": "video.mp4",
    "document": "file",
}
UNSUPPORTED_KINDS = ("sticker", "poll", "dice", "game", "story")


def parse_message(
    update: Update, gateway: str, contacts: ConversationDirectory, me: User | None
) -> InboundMessage | None:
    """Return the message in an update; None for strangers, other kinds, and what is not for the agent.

    `me` is the bot, by which messages of groups are addressed. Also None for each new position of a live
    location; its end is a message.
    """
    message = update.message or update.edited_message
    if message is None or message.from_user is None or is_live_update(message):
        return None
    text, author, dm = message.text or message.caption or "", None, None
    if message.chat.type == PRIVATE:
        dm = contacts.find(gateway, str(message.from_user.id))
    elif message.chat.type in GROUPS:
        group_message = read_group_message(message, gateway, contacts, me)
        if group_message is not None:
            text, author, dm = group_message.text, group_message.author, group_message.dm
    if dm is None:
        return None
    attachments = tuple(_attachments(message))
    message_id = format_message_id(message.message_id, topic_of(message) if author else None)
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=str(update.update_id),
        text=restore_command_name(text, contacts.commands)
        if text or attachments
        else describe_shared_item(message) or _kind(message),
        sent_at=_moment(message),
        attachments=attachments,
        message_id=message_id,
        edits=message_id if update.edited_message else None,
        reply_to=_quoted(message),
        author=author,
        language=_language(message.from_user),
    )


def parse_stranger(
    update: Update, gateway: str, contacts: ConversationDirectory
) -> Stranger | None:
    """Return the user who is not configured and wrote in a private chat; None for all others."""
    message = update.message
    if message is None or message.from_user is None or message.chat.type != PRIVATE:
        return None
    user_id = str(message.from_user.id)
    if message.from_user.is_bot or contacts.find(gateway, user_id) is not None:
        return None
    return Stranger(user_id, message.from_user.full_name, _language(message.from_user))


def _language(user: User) -> str:
    """Return the language of the user's app as an IETF tag; empty if Telegram does not say it."""
    return (user.language_code or "")[:MAX_TAG]


def parse_press(query: CallbackQuery, gateway: str) -> ButtonPress:
    """Return the press of a button; control decides whether this user may press it."""
    message = query.message
    return ButtonPress(
        gateway=gateway,
        user_id=str(query.from_user.id),
        chat_id=str(message.chat.id if message else query.from_user.id),
        data=(query.data or "")[:64],
        message_id=str(message.message_id) if message else None,
        callback_id=query.id[:100],
    )


def menu_name(command: ChannelCommand) -> str:
    """Return a command's name as Telegram's menus allow it: no slash, underscores for hyphens."""
    return command.name.removeprefix("/").replace("-", "_")


def restore_command_name(text: str, commands: Sequence[ChannelCommand]) -> str:
    """Return the text with a command from Telegram's menu replaced by its real name."""
    first, gap, rest = text.partition(" ")
    for command in commands:
        if first == f"/{menu_name(command)}":
            return f"{command.name}{gap}{rest}"
    return text


def _attachments(message: Message) -> Iterator[Attachment]:
    if message.photo:
        best = max(message.photo, key=_pixels)
        yield _attachment("photo", best.file_id, best.file_size, "image/jpeg", None)
    if voice := message.voice:
        yield _attachment("voice", voice.file_id, voice.file_size, voice.mime_type, None)
    if audio := message.audio:
        name, mime = audio.file_name, audio.mime_type
        yield _attachment("audio", audio.file_id, audio.file_size, mime, name)
    if video := message.video:
        name, mime = video.file_name, video.mime_type
        yield _attachment("video", video.file_id, video.file_size, mime, name)
    if note := message.video_note:
        yield _attachment("video", note.file_id, note.file_size, "video/mp4", None)
    # An animation also arrives as a document with the same file.
    if document := message.document:
        name, mime = document.file_name, document.mime_type
        yield _attachment("document", document.file_id, document.file_size, mime, name)


def _attachment(
    kind: AttachmentKind, ref: str, size: int | None, mime: str | None, name: str | None
) -> Attachment:
    return Attachment(
        name=(name or DEFAULT_FILE_NAMES[kind])[-255:],
        kind=kind,
        mime=(mime or ANY_MIME)[:127],
        size=size,
        ref=ref,
    )


def _pixels(size: PhotoSize) -> int:
    return size.width * size.height


def _quoted(message: Message) -> QuotedMessage | None:
    earlier = find_replied(message)
    if earlier is None:
        return None
    text = message.quote.text if message.quote else earlier.text or earlier.caption or ""
    return QuotedMessage(message_id=str(earlier.message_id), text=text[:MAX_QUOTE])


def _kind(message: Message) -> str:
    kind = next((kind for kind in UNSUPPORTED_KINDS if getattr(message, kind, None)), "something")
    # Every message of a user reaches the agent, even if its content cannot be read.
    return f"[The user sent a {kind}, which cannot be read here.]".replace(
        "a something", "something"
    )


def _moment(message: Message) -> datetime:
    moment = message.edit_date or message.date
    return moment.astimezone(UTC) if moment else datetime.now(UTC)

"""Read an update as a message of a configured user. Pure; called by polling.py."""

from datetime import UTC, datetime

from telegram import Message, Update

from choir_common.wire.messages import InboundMessage
from choir_gateway.channels.port import Contacts

PRIVATE = "private"
KINDS = ("photo", "document", "voice", "audio", "video", "video_note", "sticker", "location")


def parse_update(update: Update, gateway: str, contacts: Contacts) -> InboundMessage | None:
    """Return the message an update carries; none for strangers, groups and other kinds of update."""
    message = update.message
    if message is None or message.from_user is None or message.chat.type != PRIVATE:
        return None
    dm = contacts.find(gateway, str(message.from_user.id))
    if dm is None:
        return None
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=str(update.update_id),
        text=_words(message),
        sent_at=message.date.astimezone(UTC) if message.date else datetime.now(UTC),
    )


def _words(message: Message) -> str:
    if message.text:
        return message.text
    kind = next((kind for kind in KINDS if getattr(message, kind, None)), "something")
    # nothing a user sends is passed over in silence
    note = f"[The user sent a {kind.replace('_', ' ')}, which cannot be read here yet.]"
    return f"{note} {message.caption}" if message.caption else note

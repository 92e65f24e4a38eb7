"""Parsing of Discord's messages and presses in configured conversations. Pure; called by `receiver`."""

from collections.abc import Iterator

import discord

from choir_common.wire.attachments import ANY_MIME, MAX_FILES, Attachment, AttachmentKind
from choir_common.wire.messages import (
    MAX_QUOTE,
    ButtonPress,
    InboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.discord.group_messages import read_server_message
from choir_gateway.channels.discord.places import DiscordPlace

MAX_NAME = 255
USER_TYPES = (discord.MessageType.default, discord.MessageType.reply)


def parse_message(
    message: discord.Message, gateway: str, place: DiscordPlace, *, me: int, is_edit: bool
) -> InboundMessage | None:
    """Return the content of a message; None for what is not for the agent, and for Discord's own notices.

    Those are such as calls and pins. `me` is the bot's user id, by which messages in servers are addressed.
    """
    if message.type not in USER_TYPES:
        return None
    text, author = message.content, None
    if place.is_group:
        server_message = read_server_message(message, place.dm, me)
        if server_message is None:
            return None
        text, author = server_message.text, server_message.author
    attachments = tuple(_attachments(message))
    text = _add_forwarded(text, message)
    unique_id = str(message.id)
    message_id = f"{place.thread_id}/{unique_id}" if place.thread_id else unique_id
    sent_at = message.edited_at if is_edit and message.edited_at else message.created_at
    return InboundMessage(
        gateway=gateway,
        dm=place.dm.name,
        update_id=f"{unique_id}:{edit_time_ms(message)}" if is_edit else unique_id,
        text=text if text or attachments else _describe_other(message),
        sent_at=sent_at,
        attachments=attachments,
        message_id=message_id,
        edits=message_id if is_edit else None,
        reply_to=_quoted(message),
        author=author,
    )


def parse_press(interaction: discord.Interaction, gateway: str) -> ButtonPress | None:
    """Return the press of a button in a direct message; None for other interactions."""
    is_button = interaction.type is discord.InteractionType.component
    if not is_button or interaction.guild_id is not None:
        return None
    user_id = str(interaction.user.id)
    data = interaction.data.get("custom_id") if interaction.data else None
    return ButtonPress(
        gateway=gateway,
        user_id=user_id,
        # Control knows a DM by its user.
        chat_id=user_id,
        data=str(data or "")[:64],
        message_id=str(interaction.message.id) if interaction.message else None,
        callback_id=str(interaction.id),
    )


def edit_time_ms(message: discord.Message) -> int:
    """Return the time of a message's last edit in milliseconds; 0 if it was not edited."""
    return int(message.edited_at.timestamp() * 1000) if message.edited_at else 0


def _add_forwarded(text: str, message: discord.Message) -> str:
    forwarded = [f"[Forwarded] {it.content}" for it in message.message_snapshots if it.content]
    return "\n".join(filter(None, [text, *forwarded]))


def _attachments(message: discord.Message) -> Iterator[Attachment]:
    snapshots = message.message_snapshots
    forwarded = [file for snapshot in snapshots for file in snapshot.attachments]
    for file in [*message.attachments, *forwarded][:MAX_FILES]:
        yield Attachment(
            name=(file.filename or "file")[-MAX_NAME:],
            kind=_kind(message, file),
            mime=(file.content_type or ANY_MIME).partition(";")[0][:127] or ANY_MIME,
            size=file.size,
            ref=f"{message.channel.id}/{message.id}/{file.id}",
        )


def _kind(message: discord.Message, file: discord.Attachment) -> AttachmentKind:
    if message.flags.voice:
        return "voice"
    match (file.content_type or "").partition("/")[0]:
        case "image":
            return "photo"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def _quoted(message: discord.Message) -> QuotedMessage | None:
    reference = message.reference
    if message.type is not discord.MessageType.reply or reference is None:
        return None
    earlier = reference.resolved
    text = earlier.content if isinstance(earlier, discord.Message) else ""
    return QuotedMessage(message_id=str(reference.message_id), text=text[:MAX_QUOTE])


def _describe_other(message: discord.Message) -> str:
    # Every message of a user reaches the agent, even if its content cannot be read.
    if message.stickers:
        kind = "a sticker"
    elif message.poll is not None:
        kind = "a poll"
    else:
        kind = "something"
    return f"[The user sent {kind}, which cannot be read here.]"

"""JSON of Discord's objects, as in API v10."""

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import (
    DmChannel,
    FakeBot,
    FakeButton,
    FakeFile,
    FakeMessage,
    GuildMember,
    ServerChannel,
)

TEXT, DM, PUBLIC_THREAD = 0, 1, 11
REPLY = 19


def user_json(user_id: int, *, is_bot: bool = False) -> JsonObject:
    """Return a user object."""
    return {
        "id": str(user_id),
        "username": f"person{user_id}",
        "discriminator": "0",
        "global_name": None,
        "avatar": None,
        "bot": is_bot,
        "flags": 0,
    }


def _author_json(message: FakeMessage, *, is_bot: bool) -> JsonObject:
    member = message.author
    if member is None:
        return user_json(message.author_id, is_bot=is_bot)
    user = user_json(member.user_id, is_bot=member.is_bot)
    return user | {"username": member.username, "global_name": member.global_name}


def member_json(member: GuildMember) -> JsonObject:
    """Return the member object in an event, which has no user."""
    return {
        "nick": member.nick,
        "avatar": None,
        "roles": [],
        "joined_at": "2026-01-01T00:00:00+00:00",
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }


def guild_json(bot: FakeBot, guild_id: int) -> JsonObject:
    """Return a server with its channels and open threads."""
    channels = [(it.parent_id is None, channel_json(it)) for it in bot.channels_in(guild_id)]
    return {
        "id": str(guild_id),
        "name": "server",
        "owner_id": "1",
        "unavailable": False,
        "member_count": 3,
        "roles": [],
        "emojis": [],
        "features": [],
        "members": [],
        "channels": [body for is_channel, body in channels if is_channel],
        "threads": [body for is_channel, body in channels if not is_channel],
    }


def _server_channel_json(channel: ServerChannel) -> JsonObject:
    body: JsonObject = {
        "id": str(channel.channel_id),
        "guild_id": str(channel.guild_id),
        "name": "channel",
        "flags": 0,
        "last_message_id": str(max(channel.messages, default=channel.channel_id)),
    }
    if channel.parent_id is None:
        return body | {"type": TEXT, "position": 0, "permission_overwrites": [], "parent_id": None}
    return body | {
        "type": PUBLIC_THREAD,
        "parent_id": str(channel.parent_id),
        "owner_id": "1",
        "message_count": len(channel.messages),
        "member_count": 1,
        "thread_metadata": {
            "archived": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": "2026-01-01T00:00:00+00:00",
            "locked": False,
        },
    }


def channel_json(channel: DmChannel) -> JsonObject:
    """Return a channel object."""
    if isinstance(channel, ServerChannel):
        return _server_channel_json(channel)
    last = max(channel.messages, default=None)
    return {
        "id": str(channel.channel_id),
        "type": DM,
        "flags": 0,
        "last_message_id": str(last) if last else None,
        "recipients": [user_json(channel.user_id)],
    }


def file_json(channel: DmChannel, file: FakeFile, origin: str) -> JsonObject:
    """Return an attachment object; its address expires on the real Discord."""
    address = f"{origin}/attachments/{channel.channel_id}/{file.file_id}/{file.name}"
    return {
        "id": str(file.file_id),
        "filename": file.name,
        "size": len(file.content),
        "content_type": file.content_type,
        "url": address,
        "proxy_url": address,
    }


def _row_json(row: list[FakeButton]) -> JsonObject:
    buttons: list[JsonValue] = [
        {"type": 2, "style": 2, "label": it.label, "custom_id": it.custom_id} for it in row
    ]
    return {"type": 1, "components": buttons}


def message_json(
    bot: FakeBot,
    channel: DmChannel,
    message: FakeMessage,
    origin: str,
    *,
    shows_all: bool | None = None,
) -> JsonObject:
    """Return a message object, with the message to which it replies.

    `shows_all`: whether the bot may read all messages in servers; None: as its settings say.
    """
    is_bots = message.author_id == bot.user_id
    shows_all = bot.may_read_all if shows_all is None else shows_all
    is_private = not isinstance(channel, ServerChannel)
    has_content = shows_all or is_private or is_bots or bot.user_id in message.mentions
    body: JsonObject = {
        "id": str(message.message_id),
        "channel_id": str(channel.channel_id),
        "author": _author_json(message, is_bot=is_bots),
        "content": message.text if has_content else "",
        "timestamp": message.sent_at.isoformat(),
        "edited_timestamp": message.edited_at.isoformat() if message.edited_at else None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [user_json(it, is_bot=it == bot.user_id) for it in message.mentions],
        "mention_roles": [],
        "attachments": [file_json(channel, file, origin) for file in message.files if has_content],
        "embeds": [],
        "pinned": False,
        "type": message.kind,
        "flags": message.flags,
        "components": [_row_json(row) for row in message.buttons if has_content],
    }
    if message.webhook_id is not None:
        body["webhook_id"] = str(message.webhook_id)
    if message.sticker is not None:
        body["sticker_items"] = [{"id": "1", "name": message.sticker, "format_type": 1}]
    if message.reply_to is not None:
        earlier = channel.messages.get(message.reply_to)
        body |= _reference_json(channel, message.reply_to)
        body["referenced_message"] = (
            message_json(bot, channel, earlier, origin, shows_all=shows_all) if earlier else None
        )
    return body


def _reference_json(channel: DmChannel, message_id: int) -> JsonObject:
    return {
        "type": REPLY,
        "message_reference": {
            "type": 0,
            "message_id": str(message_id),
            "channel_id": str(channel.channel_id),
        },
    }

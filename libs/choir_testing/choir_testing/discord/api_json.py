"""JSON of Discord's objects, as in API v10."""

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import DmChannel, FakeBot, FakeFile, FakeMessage

DM = 1
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


def channel_json(channel: DmChannel) -> JsonObject:
    """Return a DM channel object."""
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


def message_json(bot: FakeBot, channel: DmChannel, message: FakeMessage, origin: str) -> JsonObject:
    """Return a message object, with the message to which it replies."""
    is_bots = message.author_id == bot.user_id
    body: JsonObject = {
        "id": str(message.message_id),
        "channel_id": str(channel.channel_id),
        "author": user_json(message.author_id, is_bot=is_bots),
        "content": message.text,
        "timestamp": message.sent_at.isoformat(),
        "edited_timestamp": message.edited_at.isoformat() if message.edited_at else None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [file_json(channel, file, origin) for file in message.files],
        "embeds": [],
        "pinned": False,
        "type": message.kind,
        "flags": message.flags,
        "components": [
            {
                "type": 1,
                "components": [
                    {"type": 2, "style": 2, "label": it.label, "custom_id": it.custom_id}
                    for it in row
                ],
            }
            for row in message.buttons
        ],
    }
    if message.sticker is not None:
        body["sticker_items"] = [{"id": "1", "name": message.sticker, "format_type": 1}]
    if message.reply_to is not None:
        body["type"] = REPLY
        body["message_reference"] = {
            "type": 0,
            "message_id": str(message.reply_to),
            "channel_id": str(channel.channel_id),
        }
        earlier = channel.messages.get(message.reply_to)
        body["referenced_message"] = (
            message_json(bot, channel, earlier, origin) if earlier else None
        )
    return body

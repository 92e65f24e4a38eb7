"""Bot API JSON of the fake Telegram's messages. Used by `methods`, `files` and `user`."""

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.telegram.accounts import Bot, Chat, SentMessage


def message_json(bot: Bot, chat: Chat, message: SentMessage) -> JsonObject:
    """Return a message as Bot API JSON, with the one it replies to."""
    body = _message(bot, chat, message)
    target = chat.messages.get(message.reply_to or 0)
    return body | {"reply_to_message": _message(bot, chat, target)} if target else body


def _message(bot: Bot, chat: Chat, message: SentMessage) -> JsonObject:
    body: JsonObject = {
        "message_id": message.message_id,
        "date": message.date,
        "chat": chat.as_json(),
        "from": bot.as_json() if message.from_bot else message.sender or chat.user_json(),
    }
    if message.topic is not None:
        body |= {"message_thread_id": message.topic, "is_topic_message": True}
    if message.edits:
        body["edit_date"] = message.date
    if message.buttons:
        rows: list[JsonValue] = [
            [{"text": b.text, "callback_data": b.callback_data}] for b in message.buttons
        ]
        body["reply_markup"] = {"inline_keyboard": rows}
    if message.shared:
        return body | message.shared
    if message.file_kind is None:
        return body | {"text": message.text} | _entities("entities", message)
    if message.text:
        body |= {"caption": message.text} | _entities("caption_entities", message)
    return body | {message.file_kind: _file(bot, message)}


def _file(bot: Bot, message: SentMessage) -> JsonValue:
    content = message.file_bytes or b""
    file_id = bot.store_file(message.file_name or "file", content)
    body: JsonObject = {"file_id": file_id, "file_unique_id": file_id, "file_size": len(content)}
    named = body | {"file_name": message.file_name}
    match message.file_kind:
        case "photo":
            small = body | {"file_size": 1, "width": 1, "height": 1}
            return [small, body | {"width": 640, "height": 480}]
        case "voice":
            return body | {"duration": 1, "mime_type": "audio/ogg"}
        case "video_note":
            return body | {"duration": 1, "length": 1}
        case "audio":
            return named | {"duration": 1, "mime_type": "audio/mpeg"}
        case "video":
            return named | {"duration": 1, "width": 1, "height": 1, "mime_type": "video/mp4"}
        case _:
            return named


def _entities(name: str, message: SentMessage) -> JsonObject:
    return {name: [*message.entities]} if message.entities else {}

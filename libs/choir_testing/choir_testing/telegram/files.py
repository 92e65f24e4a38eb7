"""Files through the Bot API: uploads and downloads by bots. Called through `METHODS`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import JsonValue

from choir_testing.telegram.accounts import Bot, Chat, Group, SentMessage
from choir_testing.telegram.bot_api_json import message_json
from choir_testing.telegram.faults import BotApiError, bad_request
from choir_testing.telegram.markup import CAPTION_LIMIT, render_caption
from choir_testing.telegram.request import Arguments

DOWNLOAD_LIMIT = 20 * 1024 * 1024
UPLOAD_LIMIT = 50 * 1024 * 1024
PHOTO_LIMIT = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MethodCall:
    """One call: the bot and its arguments."""

    bot: Bot
    arguments: Arguments


Method = Callable[[MethodCall], Awaitable[JsonValue]]


async def get_file(call: MethodCall) -> JsonValue:
    """Return the download path of a file. Raises BotApiError 400 above 20 MB."""
    file_id = call.arguments.text("file_id")
    if file_id not in call.bot.files:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    size = len(call.bot.files[file_id][1])
    if size > DOWNLOAD_LIMIT:
        raise bad_request("file is too big")
    return {
        "file_id": file_id,
        "file_unique_id": file_id,
        "file_size": size,
        "file_path": f"documents/{file_id}",
    }


def send_file(kind: str) -> Method:
    """Return the method that sends files of one kind."""

    async def send(call: MethodCall) -> JsonValue:
        chat = call.bot.chat(call.arguments.number("chat_id"))
        upload = call.arguments.upload(kind)
        if upload is None:
            raise bad_request(f"there is no {kind} in the request")
        _check_size(kind, len(upload.content))
        markup = call.arguments.optional("caption") or ""
        mode = call.arguments.optional("parse_mode")
        message = SentMessage(
            0,
            True,
            render_caption(markup, mode, CAPTION_LIMIT),
            mode,
            file_kind=kind,
            file_name=upload.name,
            file_bytes=upload.content,
            reply_to=call.arguments.replied_to(chat.messages),
            topic=find_topic(call, chat),
            markup=markup,
        )
        return store_message(call.bot, chat, message)

    return send


def find_topic(call: MethodCall, chat: Chat) -> int | None:
    """Return the topic that a call names; raises BotApiError 400 outside of forums and for unknown ones."""
    if "message_thread_id" not in call.arguments.values:
        return None
    topic = call.arguments.number("message_thread_id")
    if not isinstance(chat, Group):
        raise bad_request("message thread not found")
    return chat.check_topic(topic)


def store_message(bot: Bot, chat: Chat, message: SentMessage) -> JsonValue:
    """Add a bot's message to the chat, and return its JSON."""
    message.message_id = bot.new_message_id()
    chat.messages[message.message_id] = message
    chat.new_messages.put_nowait(message)
    chat.notify()
    return message_json(bot, chat, message)


def _check_size(kind: str, size: int) -> None:
    if size > UPLOAD_LIMIT:
        raise BotApiError(413, "Request Entity Too Large")
    if size == 0:
        raise bad_request("file must be non-empty")
    if kind == "photo" and size > PHOTO_LIMIT:
        words = f"file of size {size} bytes is too big for a photo"
        raise bad_request(f"{words}; the maximum size is {PHOTO_LIMIT} bytes")

"""The Bot API's methods, as far as Choir uses them; each takes the bot and its arguments.

server.py looks a method up in `METHODS` and answers with what it returns.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.testing.telegram.accounts import (
    Answer,
    Bot,
    Button,
    Chat,
    SentMessage,
    Webhook,
)
from choir_common.testing.telegram.entities import render, utf16_length
from choir_common.testing.telegram.faults import BotApiError, bad_request
from choir_common.testing.telegram.request import Arguments
from choir_common.wire.json import JsonObject

CAPTION_LIMIT = 1024
CALLBACK_DATA_LIMIT = 64
WEBHOOK_CONFLICT = "Conflict: can't use getUpdates method while webhook is active"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: who asks, and with what."""

    bot: Bot
    arguments: Arguments


Method = Callable[[Exchange], Awaitable[JsonValue]]


async def get_me(call: Exchange) -> JsonValue:
    """Say who the bot is."""
    return call.bot.as_json()


async def get_updates(call: Exchange) -> JsonValue:
    """Long poll. Raises BotApiError 409 under a webhook or a second poll."""
    if call.bot.webhook.url:
        raise BotApiError(409, WEBHOOK_CONFLICT)
    arguments = call.arguments
    found = await call.bot.mailbox.take(
        arguments.number("offset", 0),
        max(1, min(100, arguments.number("limit", 100))),
        float(min(50, arguments.number("timeout", 0))),
        arguments.words("allowed_updates"),
    )
    return [update.as_json() for update in found]


async def send_message(call: Exchange) -> JsonValue:
    """Say something to a person who has spoken to the bot before."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    mode = call.arguments.optional("parse_mode")
    text = render(call.arguments.text("text"), mode)
    buttons = _buttons(call.arguments)
    return _keep(call.bot, chat, SentMessage(0, True, text, mode, buttons))


async def edit_message_text(call: Exchange) -> JsonValue:
    """Change the bot's own message in place; the same text again is an error, as at Telegram."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    message = chat.messages.get(call.arguments.number("message_id"))
    if message is None or not message.from_bot:
        raise bad_request("message to edit not found")
    text = render(call.arguments.text("text"), call.arguments.optional("parse_mode"))
    buttons = _buttons(call.arguments)
    if (text, buttons) == (message.text, message.buttons):
        raise bad_request("message is not modified")
    message.text, message.buttons = text, buttons
    message.edits += 1
    chat.news.put_nowait(message)
    return message_json(call.bot, chat, message)


async def answer_callback_query(call: Exchange) -> JsonValue:
    """Close the spinner on a pressed button."""
    query = call.arguments.text("callback_query_id")
    alert = call.arguments.flag("show_alert")
    call.bot.answers.append(Answer(query, call.arguments.optional("text"), alert))
    return True


async def send_chat_action(call: Exchange) -> JsonValue:
    """Show `typing` and the like."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    chat.actions.append(call.arguments.text("action"))
    return True


async def set_my_commands(call: Exchange) -> JsonValue:
    """Keep the command menu."""
    call.bot.commands = call.arguments.objects("commands")
    return True


async def set_webhook(call: Exchange) -> JsonValue:
    """Keep the webhook's address; this Telegram does not push."""
    call.bot.webhook = Webhook(call.arguments.text("url"), call.arguments.optional("secret_token"))
    _maybe_drop(call)
    return True


async def delete_webhook(call: Exchange) -> JsonValue:
    """Go back to long polling."""
    call.bot.webhook = Webhook()
    _maybe_drop(call)
    return True


async def get_webhook_info(call: Exchange) -> JsonValue:
    """Say how updates leave."""
    pending = len(call.bot.mailbox.pending)
    return {
        "url": call.bot.webhook.url,
        "has_custom_certificate": False,
        "pending_update_count": pending,
    }


async def get_file(call: Exchange) -> JsonValue:
    """Give the path under which a file can be downloaded."""
    file_id = call.arguments.text("file_id")
    if file_id not in call.bot.files:
        raise bad_request("invalid file_id")
    size = len(call.bot.files[file_id][1])
    return {
        "file_id": file_id,
        "file_unique_id": file_id,
        "file_size": size,
        "file_path": f"documents/{file_id}",
    }


def _send_file(kind: str) -> Method:
    async def send(call: Exchange) -> JsonValue:
        chat = call.bot.chat(call.arguments.number("chat_id"))
        upload = call.arguments.upload(kind)
        if upload is None:
            raise bad_request(f"there is no {kind} in the request")
        caption = call.arguments.optional("caption") or ""
        if utf16_length(caption) > CAPTION_LIMIT:
            raise bad_request("message caption is too long")
        message = SentMessage(
            0, True, caption, file_kind=kind, file_name=upload.name, file_bytes=upload.content
        )
        return _keep(call.bot, chat, message)

    return send


METHODS: dict[str, Method] = {
    "getMe": get_me,
    "getUpdates": get_updates,
    "sendMessage": send_message,
    "editMessageText": edit_message_text,
    "answerCallbackQuery": answer_callback_query,
    "sendChatAction": send_chat_action,
    "setMyCommands": set_my_commands,
    "setWebhook": set_webhook,
    "deleteWebhook": delete_webhook,
    "getWebhookInfo": get_webhook_info,
    "getFile": get_file,
    "sendDocument": _send_file("document"),
    "sendPhoto": _send_file("photo"),
    "sendVoice": _send_file("voice"),
    "sendVideo": _send_file("video"),
}


def message_json(bot: Bot, chat: Chat, message: SentMessage) -> JsonObject:
    """Give a message the shape of the Bot API."""
    body: JsonObject = {
        "message_id": message.message_id,
        "date": message.at,
        "chat": chat.as_json(),
        "from": bot.as_json() if message.from_bot else chat.person(),
    }
    if message.edits:
        body["edit_date"] = message.at
    if message.buttons:
        rows: list[JsonValue] = [
            [{"text": b.text, "callback_data": b.callback_data}] for b in message.buttons
        ]
        body["reply_markup"] = {"inline_keyboard": rows}
    if message.file_kind is None:
        return body | {"text": message.text}
    if message.text:
        body["caption"] = message.text
    return body | {message.file_kind: _file_json(bot, message)}


def _file_json(bot: Bot, message: SentMessage) -> JsonValue:
    content = message.file_bytes or b""
    file_id = bot.keep_file(message.file_name or "file", content)
    body: JsonObject = {"file_id": file_id, "file_unique_id": file_id, "file_size": len(content)}
    match message.file_kind:
        case "photo":
            return [body | {"width": 1, "height": 1}]
        case "voice":
            return body | {"duration": 1}
        case "video":
            return body | {"duration": 1, "width": 1, "height": 1}
        case _:
            return body | {"file_name": message.file_name}


def _keep(bot: Bot, chat: Chat, message: SentMessage) -> JsonValue:
    message.message_id = bot.new_message_id()
    chat.messages[message.message_id] = message
    chat.news.put_nowait(message)
    return message_json(bot, chat, message)


def _buttons(arguments: Arguments) -> tuple[Button, ...]:
    rows = arguments.mapping("reply_markup").get("inline_keyboard")
    keys = (
        [key for row in rows if isinstance(row, list) for key in row]
        if isinstance(rows, list)
        else []
    )
    buttons = tuple(
        Button(str(key.get("text", "")), str(key.get("callback_data", "")))
        for key in keys
        if isinstance(key, dict)
    )
    if any(len(b.callback_data.encode()) > CALLBACK_DATA_LIMIT for b in buttons):
        raise bad_request("BUTTON_DATA_INVALID")
    return buttons


def _maybe_drop(call: Exchange) -> None:
    if call.arguments.flag("drop_pending_updates"):
        call.bot.mailbox.pending.clear()

"""The Bot API methods that Choir uses; each receives the bot and its arguments.

`server` finds a method in `METHODS` and sends its return value.
"""

import re

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.telegram.accounts import (
    CallbackAnswer,
    Chat,
    Draft,
    Group,
    InlineButton,
    SentMessage,
    Webhook,
)
from choir_testing.telegram.bot_api_json import message_json
from choir_testing.telegram.faults import BotApiError, bad_request
from choir_testing.telegram.files import (
    Method,
    MethodCall,
    find_topic,
    get_file,
    send_file,
    store_message,
)
from choir_testing.telegram.markup import render
from choir_testing.telegram.request import Arguments

CALLBACK_DATA_LIMIT = 64
# Some of the 73 emoji of the Bot API's `ReactionTypeEmoji`, all that tests need.
REACTION_EMOJI = frozenset("👍👎🔥👏😁🤔😱🎉🙏👌👀✍🤝🫡💯")
# A bot without a premium account may set one reaction.
MAX_REACTIONS = 1
DESCRIPTION_LIMIT = 256
TEXT_LIMIT = 4096
WEBHOOK_CONFLICT = "Conflict: can't use getUpdates method while webhook is active"


async def get_me(call: MethodCall) -> JsonValue:
    """Return the bot."""
    return call.bot.as_json()


async def get_updates(call: MethodCall) -> JsonValue:
    """Long poll. Raises BotApiError 409 if a webhook is set or another poll starts."""
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


async def send_message(call: MethodCall) -> JsonValue:
    """Send a message to a user who has written to the bot before."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    mode = call.arguments.optional("parse_mode")
    markup = call.arguments.text("text")
    message = SentMessage(0, True, render(markup, mode), mode, _buttons(call.arguments))
    message.markup = markup
    message.preview = _wants_preview(call.arguments)
    message.reply_to = call.arguments.replied_to(chat.messages)
    message.topic = find_topic(call, chat)
    chat.draft = None
    return store_message(call.bot, chat, message)


async def send_message_draft(call: MethodCall) -> JsonValue:
    """Show a text as a draft until the bot's next message."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    if isinstance(chat, Group):
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    draft_id = call.arguments.number("draft_id")
    text = render(call.arguments.text("text"), call.arguments.optional("parse_mode"))
    if draft_id == 0:
        raise bad_request("RANDOM_ID_INVALID")
    if len(text.encode("utf-16-le")) // 2 > TEXT_LIMIT:
        raise bad_request("message is too long")
    chat.draft = Draft(draft_id, text)
    chat.drafts.append(chat.draft)
    chat.notify()
    return True


async def edit_message_text(call: MethodCall) -> JsonValue:
    """Edit a message of the bot; an unchanged text is an error, as with Telegram."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    message = _own(chat, call.arguments, "edit")
    if message.file_kind is not None:
        raise bad_request("there is no text in the message to edit")
    markup, mode = call.arguments.text("text"), call.arguments.optional("parse_mode")
    text, buttons = render(markup, mode), _buttons(call.arguments)
    if (text, buttons) == (message.text, message.buttons):
        raise bad_request(
            "message is not modified: specified new message content and reply markup are exactly "
            "the same as a current content and reply markup of the message"
        )
    message.text, message.buttons, message.parse_mode = text, buttons, mode
    message.markup = markup
    message.preview = _wants_preview(call.arguments)
    message.edits += 1
    chat.new_messages.put_nowait(message)
    chat.notify()
    return message_json(call.bot, chat, message)


async def set_message_reaction(call: MethodCall) -> JsonValue:
    """Replace the bot's reactions to a message; an empty list removes them."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    message = chat.messages.get(call.arguments.number("message_id"))
    if message is None:
        raise bad_request("message to react not found")
    reactions = call.arguments.objects("reaction")
    if len(reactions) > MAX_REACTIONS:
        raise bad_request("REACTIONS_TOO_MANY")
    emoji = tuple(str(it.get("emoji")) for it in reactions if it.get("type") == "emoji")
    if len(emoji) < len(reactions) or not REACTION_EMOJI.issuperset(emoji):
        raise bad_request("REACTION_INVALID")
    message.reactions = emoji
    chat.notify()
    return True


async def delete_message(call: MethodCall) -> JsonValue:
    """Delete a message of the bot."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    message = _own(chat, call.arguments, "delete")
    del chat.messages[message.message_id]
    chat.deleted.append(message.message_id)
    chat.notify()
    return True


async def answer_callback_query(call: MethodCall) -> JsonValue:
    """Close the spinner on a pressed button. Raises BotApiError 400 if it is already closed."""
    query = call.arguments.text("callback_query_id")
    if query not in call.bot.open_queries:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    call.bot.open_queries.remove(query)
    alert = call.arguments.flag("show_alert")
    call.bot.answers.append(CallbackAnswer(query, call.arguments.optional("text"), alert))
    return True


async def send_chat_action(call: MethodCall) -> JsonValue:
    """Show a chat action such as `typing`."""
    chat = call.bot.chat(call.arguments.number("chat_id"))
    topic = find_topic(call, chat)
    action = call.arguments.text("action")
    chat.actions.append(action if topic is None else f"{action} in {topic}")
    chat.notify()
    return True


async def set_my_commands(call: MethodCall) -> JsonValue:
    """Store the command menu of a scope. Raises BotApiError 400 for names Telegram rejects."""
    commands = call.arguments.objects("commands")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", str(command.get("command", ""))):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= DESCRIPTION_LIMIT:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    scope = call.arguments.mapping("scope")
    kind = str(scope.get("type", "default"))
    if kind == "chat":
        call.bot.chat(int(str(scope.get("chat_id"))))
        kind = f"chat:{scope['chat_id']}"
    call.bot.commands[kind] = commands
    return True


async def set_webhook(call: MethodCall) -> JsonValue:
    """Push updates to an address from now on; an empty one switches to long polling."""
    call.bot.webhook = Webhook(
        call.arguments.text("url"),
        call.arguments.optional("secret_token"),
        tuple(call.arguments.words("allowed_updates")),
    )
    _maybe_drop(call)
    call.bot.mailbox.wake()
    return True


async def delete_webhook(call: MethodCall) -> JsonValue:
    """Switch to long polling."""
    call.bot.webhook = Webhook()
    _maybe_drop(call)
    call.bot.mailbox.wake()
    return True


async def get_webhook_info(call: MethodCall) -> JsonValue:
    """Return how updates are delivered."""
    pending = len(call.bot.mailbox.pending)
    info: JsonObject = {
        "url": call.bot.webhook.url,
        "has_custom_certificate": False,
        "pending_update_count": pending,
    }
    trouble = call.bot.webhook.last_error
    return info | {"last_error_message": trouble, "last_error_date": 1} if trouble else info


METHODS: dict[str, Method] = {
    "getMe": get_me,
    "getUpdates": get_updates,
    "sendMessage": send_message,
    "sendMessageDraft": send_message_draft,
    "editMessageText": edit_message_text,
    "answerCallbackQuery": answer_callback_query,
    "sendChatAction": send_chat_action,
    "setMyCommands": set_my_commands,
    "setWebhook": set_webhook,
    "deleteWebhook": delete_webhook,
    "getWebhookInfo": get_webhook_info,
    "getFile": get_file,
    "deleteMessage": delete_message,
    "setMessageReaction": set_message_reaction,
    "sendAudio": send_file("audio"),
    "sendDocument": send_file("document"),
    "sendPhoto": send_file("photo"),
    "sendVoice": send_file("voice"),
    "sendVideo": send_file("video"),
}


def _own(chat: Chat, arguments: Arguments, action: str) -> SentMessage:
    message = chat.messages.get(arguments.number("message_id"))
    if message is None or not message.from_bot:
        raise bad_request(f"message to {action} not found")
    return message


def _wants_preview(arguments: Arguments) -> bool:
    # As with Telegram: there is a preview unless it is disabled.
    return arguments.mapping("link_preview_options").get("is_disabled") is not True


def _buttons(arguments: Arguments) -> tuple[InlineButton, ...]:
    rows = arguments.mapping("reply_markup").get("inline_keyboard")
    keys = (
        [key for row in rows if isinstance(row, list) for key in row]
        if isinstance(rows, list)
        else []
    )
    buttons = tuple(
        InlineButton(str(key.get("text", "")), str(key.get("callback_data", "")))
        for key in keys
        if isinstance(key, dict)
    )
    if any(len(b.callback_data.encode()) > CALLBACK_DATA_LIMIT for b in buttons):
        raise bad_request("BUTTON_DATA_INVALID")
    return buttons


def _maybe_drop(call: MethodCall) -> None:
    if call.arguments.flag("drop_pending_updates"):
        call.bot.mailbox.pending.clear()

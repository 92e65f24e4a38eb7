"""The calls of the REST API that the fake knows. `server` authenticates and calls them."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import (
    DmChannel,
    FakeBot,
    FakeMessage,
    PendingInteraction,
    new_snowflake,
)
from choir_testing.discord.api_json import channel_json, message_json, user_json
from choir_testing.discord.faults import ApiError, invalid_form
from choir_testing.discord.message_bodies import (
    check_buttons,
    check_files,
    check_flags,
    check_nonce,
    check_reply,
    check_text,
    find_pings,
    require_content,
)

INTERACTION_TIMEOUT_S = 3.0
INTERACTION_TOKEN_S = 900.0
EPHEMERAL = 1 << 6
MAX_PAGE = 100


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A call with its arguments."""

    bot: FakeBot
    origin: str
    ids: Mapping[str, str]
    query: Mapping[str, str]
    body: JsonObject
    uploads: dict[int, tuple[str, bytes]] = field(default_factory=dict)

    def channel(self) -> DmChannel:
        """Return the channel of the path. Raises ApiError 404."""
        found = self.bot.channels.get(int(self.ids["channel_id"]))
        if found is None:
            raise ApiError(404, 10003, "Unknown Channel")
        return found

    def message(self) -> FakeMessage:
        """Return the message of the path. Raises ApiError 404."""
        found = self.channel().messages.get(int(self.ids["message_id"]))
        if found is None:
            raise ApiError(404, 10008, "Unknown Message")
        return found


async def read_me(request: ApiRequest) -> JsonValue:
    """Return the bot's user."""
    return user_json(request.bot.user_id, is_bot=True)


async def read_application(request: ApiRequest) -> JsonValue:
    """Return the bot's application."""
    return {
        "id": str(request.bot.user_id),
        "name": "bot",
        "icon": None,
        "description": "",
        "bot_public": False,
        "bot_require_code_grant": False,
        "verify_key": "00",
        "owner": user_json(1),
        "flags": 0,
    }


async def read_gateway(request: ApiRequest) -> JsonValue:
    """Return the address of the gateway."""
    return {
        "url": f"{request.origin.replace('http', 'ws', 1)}/gateway",
        "shards": 1,
        "session_start_limit": {
            "total": 1000,
            "remaining": 1000 - request.bot.sessions.identified,
            "reset_after": 1000,
            "max_concurrency": 1,
        },
    }


async def create_channel(request: ApiRequest) -> JsonValue:
    """Open the direct messages with a user, or return them."""
    recipient = str(request.body.get("recipient_id", ""))
    if not recipient.isdigit():
        raise invalid_form("recipient_id", "NUMBER_TYPE_COERCE", "not a snowflake")
    channel = request.bot.channel_of(int(recipient))
    if channel is None:
        raise ApiError(400, 50033, "Invalid Recipient(s)")
    return channel_json(channel)


async def read_channel(request: ApiRequest) -> JsonValue:
    """Return a channel."""
    return channel_json(request.channel())


async def list_active_threads(request: ApiRequest) -> JsonValue:
    """Return the open threads of a server."""
    guild_id = int(request.ids["guild_id"])
    if guild_id not in request.bot.guild_ids:
        raise ApiError(404, 10004, "Unknown Guild")
    threads = [it for it in request.bot.channels_in(guild_id) if it.parent_id is not None]
    return {"threads": [channel_json(it) for it in threads], "members": []}


async def list_messages(request: ApiRequest) -> JsonValue:
    """Return a page of messages, newest first."""
    channel, query = request.channel(), request.query
    limit = int(query.get("limit", "50"))
    if not 1 <= limit <= MAX_PAGE:
        raise invalid_form("limit", "NUMBER_TYPE_MAX", "int value should be 1 to 100")
    if len({"before", "after", "around"} & query.keys()) > 1:
        raise invalid_form("query", "MUTUALLY_EXCLUSIVE", "before, after and around")
    ids = sorted(channel.messages)
    if "after" in query:
        page = [it for it in ids if it > int(query["after"])][:limit]
    elif "before" in query:
        page = [it for it in ids if it < int(query["before"])][-limit:]
    else:
        page = ids[-limit:]
    return [
        message_json(request.bot, channel, channel.messages[it], request.origin)
        for it in reversed(page)
    ]


async def read_message(request: ApiRequest) -> JsonValue:
    """Return a message."""
    return message_json(request.bot, request.channel(), request.message(), request.origin)


async def create_message(request: ApiRequest) -> JsonValue:
    """Send a message, or return the one that has the same enforced nonce."""
    bot, channel, body = request.bot, request.channel(), request.body
    text, nonce = check_text(body), check_nonce(body)
    message = FakeMessage(
        message_id=new_snowflake(),
        author_id=bot.user_id,
        text=text,
        files=check_files(body, request.uploads, [new_snowflake() for _ in request.uploads]),
        buttons=check_buttons(body),
        flags=check_flags(body),
        reply_to=check_reply(body, channel),
        nonce=nonce,
        pings=find_pings(body, text),
    )
    require_content(message)
    if channel.is_blocked:
        raise ApiError(403, 50007, "Cannot send messages to this user")
    if nonce is not None and body.get("enforce_nonce") is True:
        for earlier in channel.messages.values():
            if earlier.nonce == nonce and earlier.author_id == bot.user_id:
                return message_json(bot, channel, earlier, request.origin)
    channel.messages[message.message_id] = message
    channel.news.put_nowait(message)
    channel.note_change()
    return message_json(bot, channel, message, request.origin)


async def edit_message(request: ApiRequest) -> JsonValue:
    """Edit a message of the bot."""
    bot, channel, message = request.bot, request.channel(), request.message()
    if message.author_id != bot.user_id:
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    body = request.body
    if "content" in body:
        message.text = check_text(body)
        message.pings = find_pings(body, message.text)
    if "components" in body:
        message.buttons = check_buttons(body)
    if "flags" in body:
        message.flags = check_flags(body)
    require_content(message)
    message.edited_at = datetime.now(UTC)
    message.edits += 1
    channel.news.put_nowait(message)
    channel.note_change()
    return message_json(bot, channel, message, request.origin)


async def trigger_typing(request: ApiRequest) -> JsonValue:
    """Show the bot typing."""
    channel = request.channel()
    channel.typing += 1
    channel.note_change()
    return None


async def respond(request: ApiRequest) -> JsonValue:
    """Respond to an interaction, once and within three seconds."""
    pending = _interaction(request)
    late = time.monotonic() - pending.created > INTERACTION_TIMEOUT_S
    if late or str(pending.interaction_id) != request.ids["interaction_id"]:
        raise ApiError(404, 10062, "Unknown interaction")
    if pending.response_type is not None:
        raise ApiError(400, 40060, "Interaction has already been acknowledged.")
    kind = request.body.get("type")
    if kind not in (4, 5, 6, 7):
        raise invalid_form("type", "BASE_TYPE_CHOICES", "unknown type")
    pending.response_type = int(str(kind))
    pending.channel.note_change()
    return None


async def follow_up(request: ApiRequest) -> JsonValue:
    """Send a message after the response to an interaction."""
    pending = _interaction(request)
    if (
        pending.response_type is None
        or time.monotonic() - pending.created > INTERACTION_TOKEN_S
        or str(request.bot.user_id) != request.ids["application_id"]
    ):
        raise ApiError(404, 10015, "Unknown Webhook")
    text = check_text(request.body)
    if not text:
        raise ApiError(400, 50006, "Cannot send an empty message")
    if request.body.get("flags") != EPHEMERAL:
        raise invalid_form("flags", "MESSAGE_FLAGS", "this fake knows ephemeral messages only")
    pending.channel.notices.append(text)
    pending.channel.note_change()
    message = FakeMessage(new_snowflake(), request.bot.user_id, text, flags=EPHEMERAL)
    return message_json(request.bot, pending.channel, message, request.origin)


def _interaction(request: ApiRequest) -> PendingInteraction:
    found = request.bot.interactions.get(request.ids["token"])
    if found is None:
        raise ApiError(404, 10062, "Unknown interaction")
    return found


Operation = Callable[[ApiRequest], Awaitable[JsonValue]]

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/users/@me"): read_me,
    ("GET", "/oauth2/applications/@me"): read_application,
    ("GET", "/gateway/bot"): read_gateway,
    ("POST", "/users/@me/channels"): create_channel,
    ("GET", "/channels/{channel_id}"): read_channel,
    ("GET", "/guilds/{guild_id}/threads/active"): list_active_threads,
    ("GET", "/channels/{channel_id}/messages"): list_messages,
    ("POST", "/channels/{channel_id}/messages"): create_message,
    ("GET", "/channels/{channel_id}/messages/{message_id}"): read_message,
    ("PATCH", "/channels/{channel_id}/messages/{message_id}"): edit_message,
    ("POST", "/channels/{channel_id}/typing"): trigger_typing,
    ("POST", "/interactions/{interaction_id}/{token}/callback"): respond,
    ("POST", "/webhooks/{application_id}/{token}"): follow_up,
}
"""By method and path below the version."""

WITHOUT_TOKEN = ("/interactions/", "/webhooks/")
LIMITED = frozenset(
    {
        ("POST", "/channels/{channel_id}/messages"),
        ("PATCH", "/channels/{channel_id}/messages/{message_id}"),
        ("POST", "/channels/{channel_id}/typing"),
    }
)

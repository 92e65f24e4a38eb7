"""The methods of the Web API that the fake Slack knows, each with its documented arguments."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.slack.accounts import (
    BOT_NAME,
    DmChannel,
    FakeApp,
    FakeFile,
    FakeMessage,
    RoomChannel,
    new_id,
    new_ts,
)
from choir_testing.slack.api_json import file_json, message_json, user_json
from choir_testing.slack.blocks import ShownBlocks, read_blocks
from choir_testing.slack.faults import ApiError, invalid_arguments
from choir_testing.slack.room import tell_room

MAX_TEXT = 40_000
MAX_PAGE = 999
REACTIONS = {
    *("eyes", "thumbsup", "ok_hand", "writing_hand", "saluting_face", "hourglass_flowing_sand")
}


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call with its arguments; those of a form are texts."""

    app: FakeApp
    arguments: JsonObject
    origin: str

    def text(self, name: str) -> str:
        """Return an argument that is a text."""
        value = self.arguments.get(name, "")
        if not isinstance(value, str):
            raise invalid_arguments(f"{name} must be a string")
        return value

    def is_set(self, name: str) -> bool:
        """Return an argument that is a boolean."""
        return self.arguments.get(name) in (True, "true", "1")

    def channel(self, name: str = "channel") -> DmChannel:
        """Return the direct messages or the channel that an argument names."""
        channel = self.app.channels.get(self.text(name))
        if channel is None or channel.is_deactivated:
            raise ApiError("channel_not_found")
        if isinstance(channel, RoomChannel) and not channel.is_member:
            raise ApiError("not_in_channel")
        return channel

    def read_channel(self) -> DmChannel:
        """Return the channel whose history is read; each kind needs its own permission."""
        channel = self.channel()
        scope = channel.history_scope if isinstance(channel, RoomChannel) else "im:history"
        if scope not in self.app.scopes:
            provided = ",".join(sorted(self.app.scopes))
            raise ApiError("missing_scope", needed=scope, provided=provided)
        return channel


def test_auth(call: MethodCall) -> JsonObject:
    """Return who the app is."""
    app = call.app
    return {
        "url": "https://fake.slack.com/",
        "team_id": app.team_id,
        "user_id": app.bot_user_id,
        "user": BOT_NAME,
        "bot_id": app.bot_id,
    }


def open_connection(call: MethodCall) -> JsonObject:
    """Return an address for one WebSocket."""
    if not call.app.sockets.is_enabled:
        raise ApiError("link_disabled")
    ticket = call.app.sockets.new_ticket()
    return {"url": f"{call.origin.replace('http', 'ws', 1)}/link/?ticket={ticket}"}


def open_channel(call: MethodCall) -> JsonObject:
    """Return the direct messages with a user."""
    channel = call.app.channel_of(call.text("users"))
    if channel is None:
        raise ApiError("user_not_found")
    if channel.is_deactivated:
        raise ApiError("user_disabled")
    return {"channel": {"id": channel.channel_id}, "already_open": True}


def read_history(call: MethodCall) -> JsonObject:
    """Return the newest messages first; a history has no replies that are in a thread only."""
    channel = call.read_channel()
    shown = [it for it in channel.messages.values() if it.thread_ts is None or it.is_broadcast]
    return _page(call, channel, shown[::-1])


def read_replies(call: MethodCall) -> JsonObject:
    """Return the first message of a thread, then its replies, oldest first."""
    channel, ts = call.read_channel(), call.text("ts")
    root = channel.messages.get(ts)
    if root is None:
        raise ApiError("thread_not_found")
    oldest = call.text("oldest") or "0"
    replies = [it for it in channel.replies(ts) if float(it.ts) > float(oldest)]
    return _page(call, channel, [root, *replies], is_filtered=True)


def _page(
    call: MethodCall, channel: DmChannel, messages: list[FakeMessage], *, is_filtered: bool = False
) -> JsonObject:
    oldest, latest = call.text("oldest") or "0", call.text("latest") or "9999999999"
    limit, start = int(call.text("limit") or 100), int(call.text("cursor") or 0)
    if not 1 <= limit <= MAX_PAGE:
        raise ApiError("invalid_limit")
    if not is_filtered:
        messages = [it for it in messages if float(oldest) < float(it.ts) < float(latest)]
    page, has_more = messages[start : start + limit], len(messages) > start + limit
    return {
        "messages": [message_json(call.app, channel, it, call.origin) for it in page],
        "has_more": has_more,
        "response_metadata": {"next_cursor": str(start + limit) if has_more else ""},
    }


def post_message(call: MethodCall) -> JsonObject:
    """Post a message of the app."""
    channel = call.channel()
    _count_message(call.app, channel)
    shown = _read_content(call)
    thread_ts = call.text("thread_ts") or None
    if thread_ts is not None:
        root = channel.messages.get(thread_ts)
        if root is None:
            raise ApiError("thread_not_found")
        # The documentation warns of the `ts` of a reply.
        if root.thread_ts is not None:
            raise ApiError("invalid_thread_ts")
    message = FakeMessage(call.app.bot_user_id, "")
    _show(call, message, shown)
    # Slack makes previews of links unless both are switched off.
    is_off = all(call.arguments.get(it) is False for it in ("unfurl_links", "unfurl_media"))
    message.has_preview = "http" in message.text and not is_off
    message.thread_ts = thread_ts
    message.is_broadcast = call.is_set("reply_broadcast")
    channel.messages[message.ts] = message
    channel.news.put_nowait(message)
    channel.note_change()
    if isinstance(channel, RoomChannel):
        tell_room(call.app, channel, message_json(call.app, channel, message, call.origin))
    return {"channel": channel.channel_id, "ts": message.ts, "message": {"text": message.text}}


def update_message(call: MethodCall) -> JsonObject:
    """Change a message of the app."""
    channel = call.channel()
    message = channel.messages.get(call.text("ts"))
    if message is None:
        raise ApiError("message_not_found")
    if message.author != call.app.bot_user_id:
        raise ApiError("cant_update_message")
    _show(call, message, _read_content(call))
    message.edited_ts = new_ts()
    message.edits += 1
    channel.news.put_nowait(message)
    channel.note_change()
    return {"channel": channel.channel_id, "ts": message.ts, "text": message.text}


def post_ephemeral(call: MethodCall) -> JsonObject:
    """Show a text to one user."""
    channel = call.channel()
    if call.text("user") != channel.user_id:
        raise ApiError("user_not_in_channel")
    channel.notices.append(_read_content(call).text or _unescape(call.text("text")))
    channel.note_change()
    return {"message_ts": new_ts()}


def _count_message(app: FakeApp, channel: DmChannel) -> None:
    if app.rate_limits is not None:
        app.rate_limits.count(channel.channel_id)


def _read_content(call: MethodCall) -> ShownBlocks:
    text = call.text("text")
    if len(text) > MAX_TEXT:
        raise ApiError("msg_too_long")
    if "<" in text or ">" in text:
        raise invalid_arguments("the fake expects texts without mentions and links")
    shown = read_blocks(call.arguments.get("blocks", []))
    if not text and not shown.lines:
        raise ApiError("no_text")
    return shown


def _show(call: MethodCall, message: FakeMessage, shown: ShownBlocks) -> None:
    blocks = call.arguments.get("blocks") or []
    message.blocks = (
        [it for it in blocks if isinstance(it, dict)] if isinstance(blocks, list) else []
    )
    message.text = shown.text if shown.lines else _unescape(call.text("text"))
    message.buttons, message.quotes = shown.buttons, shown.quotes


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def add_reaction(call: MethodCall) -> JsonObject:
    """Put a reaction of the app on a message."""
    channel, message, name = _reaction(call)
    if name in message.reactions:
        raise ApiError("already_reacted")
    message.reactions.add(name)
    channel.note_change()
    return {}


def remove_reaction(call: MethodCall) -> JsonObject:
    """Remove a reaction of the app."""
    channel, message, name = _reaction(call)
    if name not in message.reactions:
        raise ApiError("no_reaction")
    message.reactions.remove(name)
    channel.note_change()
    return {}


def _reaction(call: MethodCall) -> tuple[DmChannel, FakeMessage, str]:
    channel, name = call.channel(), call.text("name")
    message = channel.messages.get(call.text("timestamp"))
    if message is None:
        raise ApiError("message_not_found")
    if name not in REACTIONS:
        raise ApiError("invalid_name")
    return channel, message, name


def read_user_info(call: MethodCall) -> JsonObject:
    """Return a user of the workspace."""
    person = call.app.people.get(call.text("user"))
    if person is None:
        raise ApiError("user_not_found")
    return {"user": user_json(person)}


def read_file_info(call: MethodCall) -> JsonObject:
    """Return a file with its present address."""
    file = call.app.find_file(call.text("file"))
    if file is None:
        raise ApiError("file_not_found")
    return {"file": file_json(file, call.origin)}


def start_upload(call: MethodCall) -> JsonObject:
    """Return an address for the bytes of a file."""
    length = call.text("length")
    if not length.isdecimal() or int(length) < 1:
        raise invalid_arguments("length must be a positive number")
    file = FakeFile(call.text("filename"), b"")
    key = new_id("K")
    call.app.uploads[f"{key}:{length}"] = file
    return {"upload_url": f"{call.origin}/upload/v1/{key}:{length}", "file_id": file.file_id}


def complete_upload(call: MethodCall) -> JsonObject:
    """Show uploaded files in a message."""
    channel, listed = call.channel("channel_id"), call.arguments.get("files")
    if not isinstance(listed, list) or not listed:
        raise invalid_arguments("files must be a list")
    files: list[FakeFile] = []
    for item in listed:
        file_id = item.get("id") if isinstance(item, dict) else None
        keys = [key for key, it in call.app.uploads.items() if it.file_id == file_id]
        if not keys or not call.app.uploads[keys[0]].content:
            raise ApiError("file_not_found")
        files.append(call.app.uploads.pop(keys[0]))
    _count_message(call.app, channel)
    thread_ts = call.text("thread_ts") or None
    message = FakeMessage(call.app.bot_user_id, "", thread_ts=thread_ts, files=files)
    channel.messages[message.ts] = message
    channel.news.put_nowait(message)
    channel.note_change()
    shown: list[JsonValue] = [{"id": it.file_id, "title": it.name} for it in files]
    return {"files": shown}


@dataclass(frozen=True, slots=True)
class Method:
    """A method: its implementation and what it accepts."""

    run: Callable[[MethodCall], JsonObject]
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    scope: str | None = None
    accepts_json: bool = True
    takes_app_token: bool = False


def _method(
    run: Callable[[MethodCall], JsonObject],
    required: str = "",
    optional: str = "",
    *,
    scope: str | None = None,
    accepts_json: bool = True,
) -> Method:
    names = frozenset(required.split()), frozenset(optional.split())
    return Method(run, *names, scope=scope, accepts_json=accepts_json)


CONTENT = "text blocks metadata attachments"
PLACE = "unfurl_links unfurl_media mrkdwn parse link_names username icon_emoji icon_url"
PAGE = "cursor limit oldest latest inclusive include_all_metadata"
METHODS: dict[str, Method] = {
    "auth.test": _method(test_auth),
    "apps.connections.open": Method(open_connection, takes_app_token=True),
    "conversations.open": _method(
        open_channel, "users", "return_im prevent_creation", scope="im:write"
    ),
    "conversations.history": _method(read_history, "channel", PAGE, accepts_json=False),
    "conversations.replies": _method(read_replies, "channel ts", PAGE, accepts_json=False),
    "chat.postMessage": _method(
        post_message, "channel", f"{CONTENT} {PLACE} thread_ts reply_broadcast", scope="chat:write"
    ),
    "chat.update": _method(
        update_message,
        "channel ts",
        f"{CONTENT} parse link_names reply_broadcast",
        scope="chat:write",
    ),
    "chat.postEphemeral": _method(
        post_ephemeral, "channel user", f"{CONTENT} {PLACE} thread_ts", scope="chat:write"
    ),
    "reactions.add": _method(add_reaction, "channel name timestamp", scope="reactions:write"),
    "reactions.remove": _method(
        remove_reaction, "name", "channel timestamp file file_comment", scope="reactions:write"
    ),
    "users.info": _method(
        read_user_info, "user", "include_locale", scope="users:read", accepts_json=False
    ),
    "files.info": _method(
        read_file_info, "file", "count cursor limit page", scope="files:read", accepts_json=False
    ),
    "files.getUploadURLExternal": _method(
        start_upload,
        "filename length",
        "alt_txt snippet_type",
        scope="files:write",
        accepts_json=False,
    ),
    "files.completeUploadExternal": _method(
        complete_upload,
        "files",
        "channel_id channels thread_ts initial_comment blocks",
        scope="files:write",
    ),
}

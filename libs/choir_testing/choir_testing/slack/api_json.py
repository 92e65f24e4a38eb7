"""JSON of Slack's objects, as in the Web API and in events."""

from choir_common.wire.model import JsonObject
from choir_testing.slack.accounts import (
    BOT_NAME,
    DmChannel,
    FakeApp,
    FakeFile,
    FakeMessage,
    FakePerson,
)


def escape(text: str) -> str:
    """Return a text as Slack stores it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def file_json(file: FakeFile, origin: str) -> JsonObject:
    """Return a file object."""
    if file.is_deleted:
        return {"id": file.file_id, "mode": "tombstone"}
    address = file.external_url or f"{origin}/files-pri/{file.file_id}/{file.name}"
    body: JsonObject = {
        "id": file.file_id,
        "name": file.name,
        "title": file.name,
        "mimetype": file.mimetype,
        "size": len(file.content),
        "mode": "external" if file.external_url else "hosted",
        "is_external": file.external_url is not None,
        "url_private": address,
    }
    if file.external_url is None:
        body["url_private_download"] = address
    if file.subtype is not None:
        body["subtype"] = file.subtype
    return body


def user_json(person: FakePerson) -> JsonObject:
    """Return a user object."""
    return {
        "id": person.user_id,
        "name": person.user_id.lower(),
        "is_bot": person.is_bot,
        "profile": {"display_name": person.display_name, "real_name": person.real_name},
    }


def message_json(app: FakeApp, channel: DmChannel, message: FakeMessage, origin: str) -> JsonObject:
    """Return a message object, as in a history."""
    body: JsonObject = {
        "type": "message",
        "user": message.author,
        "team": app.team_id,
        "text": escape(message.text).replace(f"@{BOT_NAME}", f"<@{app.bot_user_id}>"),
        "ts": message.ts,
    }
    if message.author == app.bot_user_id:
        body |= {"bot_id": app.bot_id, "app_id": app.app_id, "blocks": list(message.blocks)}
    if message.subtype is not None:
        body["subtype"] = message.subtype
    if message.files:
        body["files"] = [file_json(file, origin) for file in message.files]
        if message.author != app.bot_user_id:
            body["subtype"] = "file_share"
    if message.edited_ts is not None:
        body["edited"] = {"user": message.author, "ts": message.edited_ts}
    if message.thread_ts is not None:
        body["thread_ts"] = message.thread_ts
        root = channel.messages.get(message.thread_ts)
        if root is not None:
            body["parent_user_id"] = root.author
        if message.is_broadcast:
            body["subtype"] = "thread_broadcast"
    elif replies := channel.replies(message.ts):
        body |= {
            "thread_ts": message.ts,
            "reply_count": len(replies),
            "latest_reply": replies[-1].ts,
        }
    return body

"""Parsing of events into messages of configured users. Pure; called by `receiver`."""

import re
from collections.abc import Iterator, Sequence

from choir_common.wire.attachments import ANY_MIME, MAX_FILE_NAME, Attachment, AttachmentKind
from choir_common.wire.messages import (
    MAX_QUOTE,
    ChannelCommand,
    DmBinding,
    InboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.matrix.addresses import format_message_id
from choir_gateway.channels.matrix.events import MatrixEvent, MessageContent, parse_content
from choir_gateway.channels.matrix.group_messages import GroupContext, remove_name

MESSAGE, STICKER, REACTION = "m.room.message", "m.sticker", "m.reaction"
ENCRYPTED, REDACTION = "m.room.encrypted", "m.room.redaction"
POLLS = ("m.poll.start", "org.matrix.msc3381.poll.start")
MESSAGE_TYPES = (MESSAGE, STICKER, *POLLS)
DELETED_TEXT = "[The user deleted this message.]"

KINDS: dict[str, AttachmentKind] = {
    "m.image": "photo",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "document",
}
MEDIA_ADDRESS = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
FALLBACK_PREFIX = "> "


def parse_message(
    event: MatrixEvent,
    gateway: str,
    dm: DmBinding,
    *,
    quoted: QuotedMessage | None = None,
    commands: Sequence[ChannelCommand] = (),
    group: GroupContext | None = None,
) -> InboundMessage | None:
    """Return the content of a user's message or edit; `group`: it is in a group.

    None for notices, which are from programs and must not be answered.
    """
    content = parse_content(event.content) or MessageContent()
    edits = content.relates_to.target("m.replace")
    if edits is not None:
        content = parse_content(content.new_content or {}) or MessageContent()
    if content.msgtype == "m.notice":
        return None
    attachments = tuple(_attachments(content)) if event.type == MESSAGE else ()
    text, thread = _text(event.type, content), None
    if group is not None:
        text, thread = remove_name(text, group.names), group.thread
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=event.event_id,
        text=restore_command_name(text, commands) if text or attachments else _describe(event),
        sent_at=event.sent_at,
        attachments=attachments,
        message_id=format_message_id(edits or event.event_id, thread),
        edits=format_message_id(edits, thread) if edits is not None else None,
        reply_to=quoted,
        author=group.author if group is not None else None,
    )


def parse_redaction(
    event: MatrixEvent,
    gateway: str,
    dm: DmBinding,
    *,
    target: str,
    group: GroupContext | None = None,
) -> InboundMessage:
    """Return the deletion of a user's message as an edit of it."""
    message_id = format_message_id(target, group.thread if group is not None else None)
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=event.event_id,
        text=DELETED_TEXT,
        sent_at=event.sent_at,
        message_id=message_id,
        edits=message_id,
        author=group.author if group is not None else None,
    )


def quote_event(event: MatrixEvent) -> QuotedMessage:
    """Return an event that a user replied to, with its text after edits."""
    content = parse_content(event.content) or MessageContent()
    text = read_body(content)
    relations = event.unsigned.get("m.relations")
    edit = relations.get("m.replace") if isinstance(relations, dict) else None
    outer = edit.get("content") if isinstance(edit, dict) else None
    latest = outer.get("m.new_content") if isinstance(outer, dict) else None
    if isinstance(latest, dict) and isinstance(latest.get("body"), str):
        text = str(latest["body"])
    return QuotedMessage(message_id=event.event_id, text=text[:MAX_QUOTE])


def restore_command_name(text: str, commands: Sequence[ChannelCommand]) -> str:
    """Return the text with `!status` replaced by `/status`: clients keep unknown slash commands."""
    first, gap, rest = text.partition(" ")
    name = f"/{first.removeprefix('!')}"
    if first.startswith("!") and any(command.name == name for command in commands):
        return f"{name}{gap}{rest}"
    return text


def redaction_target(event: MatrixEvent) -> str | None:
    """Return the event that a redaction removes."""
    target = event.content.get("redacts") or event.redacts
    return target if isinstance(target, str) else None


def _text(event_type: str, content: MessageContent) -> str:
    if event_type != MESSAGE:
        return ""
    body = read_body(content)
    match content.msgtype:
        case "m.text":
            return body
        case "m.emote":
            return f"* {body}"
        case "m.location":
            return f"[The user sent a location: {content.geo_uri or 'unknown'}] {body}".strip()
        case kind if kind in KINDS:
            # Only with a separate file name is the body a caption.
            return body if content.filename and content.filename != content.body else ""
        case _:
            return ""


def _attachments(content: MessageContent) -> Iterator[Attachment]:
    kind = KINDS.get(content.msgtype)
    if kind is None or content.url is None or MEDIA_ADDRESS.fullmatch(content.url) is None:
        return
    size = content.info.size
    mime = (content.info.mimetype or "").partition(";")[0].strip()
    yield Attachment(
        name=(content.filename or content.body or "file")[-MAX_FILE_NAME:],
        kind="voice" if kind == "audio" and content.voice is not None else kind,
        mime=mime[:127] or ANY_MIME,
        size=size if size is not None and size >= 0 else None,
        ref=content.url,
    )


def read_body(content: MessageContent) -> str:
    """Return the body, without the quotation that older clients put before a reply."""
    body = content.body
    if content.relates_to.in_reply_to is None:
        return body
    lines = body.split("\n")
    count = next((at for at, it in enumerate(lines) if not it.startswith(FALLBACK_PREFIX)), 0)
    return "\n".join(lines[count:]).lstrip("\n") if count else body


def _describe(event: MatrixEvent) -> str:
    # Every message of a user reaches the agent, even if its content cannot be read.
    if event.type == STICKER:
        kind = "a sticker"
    elif event.type in POLLS:
        kind = "a poll"
    else:
        kind = "something"
    return f"[The user sent {kind}, which cannot be read here.]"

"""Parsing of Slack's messages and presses of configured users. Pure; called by `receiver`."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from choir_common.wire.attachments import ANY_MIME, MAX_FILES, Attachment, AttachmentKind
from choir_common.wire.messages import (
    MAX_QUOTE,
    MAX_TEXT,
    ButtonPress,
    ChannelCommand,
    DmBinding,
    InboundMessage,
    QuotedMessage,
)
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.slack.addresses import format_message_id
from choir_gateway.channels.slack.payloads import BlockPress, FileObject, MessageObject, ts_order

MAX_NAME = 255
MAX_DATA = 64
USER_SUBTYPES = (None, "file_share", "thread_broadcast", "me_message")
# Slack's control sequences: <@U1>, <#C1|name>, <!here>, <https://a.b|label>.
SEQUENCE = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
COMMAND = re.compile(r"\s*[!/]([A-Za-z][A-Za-z0-9_-]*)")


def is_users(message: MessageObject) -> bool:
    """Return whether a person wrote the message; False for apps and Slack's own notices."""
    return message.bot_id is None and message.subtype in USER_SUBTYPES


def parse_message(
    message: MessageObject,
    gateway: str,
    dm: DmBinding,
    *,
    channel: str,
    is_edit: bool,
    quoted: QuotedMessage | None,
    commands: Sequence[ChannelCommand],
    author: GroupMember | None = None,
) -> InboundMessage:
    """Return the content of a user's message; `author` is that of a message in a channel."""
    files = [file for file in message.files if file.mode != "tombstone"]
    attachments = tuple(_attachments(files))
    lines = [
        to_text(message.text or ""),
        *(_describe_external(it) for it in files if it.is_external),
    ]
    text = "\n".join(filter(None, lines))[:MAX_TEXT]
    # Every message of a user reaches the agent, even if its content cannot be read.
    if not text and not attachments:
        text = "[The user sent something, which cannot be read here.]"
    # A `ts` is unique only within its channel.
    update_id = f"{channel}:{message.ts}"
    message_id = format_message_id(message.ts, message.thread if author else None)
    return InboundMessage(
        gateway=gateway,
        dm=dm.name,
        update_id=f"{update_id}:{message.edited_ts}" if is_edit else update_id,
        text=restore_command(text, commands),
        sent_at=_moment(message.edited_ts if is_edit and message.edited else message.ts),
        attachments=attachments,
        message_id=message_id,
        edits=message_id if is_edit else None,
        reply_to=quoted,
        author=author,
    )


def parse_press(press: BlockPress, gateway: str) -> ButtonPress | None:
    """Return the press of a button below a message; None for other interactions."""
    action, container = press.actions[0], press.container
    if press.type != "block_actions" or action.type != "button" or container.type != "message":
        return None
    return ButtonPress(
        gateway=gateway,
        user_id=press.user.id[:64],
        # Control knows a DM by its user; `receiver` compares the channel.
        chat_id=press.user.id[:64],
        data=action.value[:MAX_DATA],
        message_id=container.message_ts or None,
        callback_id=f"{container.message_ts}/{action.action_ts}",
    )


def make_quote(root: MessageObject | None, thread_ts: str) -> QuotedMessage:
    """Return the first message of a thread as the one to which a message in it replies."""
    text = to_text(root.text or "") if root is not None else ""
    return QuotedMessage(message_id=thread_ts, text=text[:MAX_QUOTE])


def to_text(text: str) -> str:
    """Return the text of a message without Slack's control sequences and escapes."""
    plain = SEQUENCE.sub(_expand, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def restore_command(text: str, commands: Sequence[ChannelCommand]) -> str:
    """Return the text with `!status` replaced by `/status`: Slack sends no text that begins with `/`."""
    word = COMMAND.match(text)
    if word is None:
        return text
    name = f"/{word.group(1)}"
    is_known = any(command.name == name for command in commands)
    return f"{name}{text[word.end() :]}" if is_known else text


def _expand(sequence: re.Match[str]) -> str:
    content, label = sequence.group(1), sequence.group(2)
    match content[:1]:
        case "@" | "#":
            return f"{content[:1]}{label}" if label else content
        case "!":
            return label or f"@{content[1:].partition('^')[0]}"
        case _:
            address = content.removeprefix("mailto:") if label else content
            is_same = label in (None, "", address, content, address.partition("://")[2])
            return address if is_same else f"{label} ({address})"


def _attachments(files: Sequence[FileObject]) -> Iterator[Attachment]:
    for file in [it for it in files if not it.is_external][:MAX_FILES]:
        yield Attachment(
            name=(file.name or "file")[-MAX_NAME:],
            kind=_kind(file),
            mime=(file.mimetype or ANY_MIME).partition(";")[0][:127] or ANY_MIME,
            size=file.size,
            ref=file.id,
        )


def _kind(file: FileObject) -> AttachmentKind:
    if file.subtype == "slack_audio":
        return "voice"
    match (file.mimetype or "").partition("/")[0]:
        case "image":
            return "photo"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def _describe_external(file: FileObject) -> str:
    return (
        f"[The user shared a file that is not at Slack: {file.name or 'file'}, {file.url_private}]"
    )


def _moment(ts: str) -> datetime:
    seconds, micros = ts_order(ts)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=min(micros, 999_999))

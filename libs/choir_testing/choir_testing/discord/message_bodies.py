"""Validation of the bodies of messages, by the documented limits. Raises ApiError."""

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import DmChannel, FakeButton, FakeFile, FakeMessage
from choir_testing.discord.faults import ApiError, invalid_form

MAX_TEXT = 2000
MAX_FILES = 10
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_NONCE = 25
ALLOWED_FLAGS = (1 << 2) | (1 << 12)
MENTION = re.compile(r"@everyone|@here|<@!?\d+>|<@&\d+>")


def check_text(body: JsonObject) -> str:
    """Return the text of a message."""
    text = body.get("content") or ""
    if not isinstance(text, str):
        raise invalid_form("content", "STRING_TYPE_CONVERT", "must be a string")
    if len(text) > MAX_TEXT:
        raise invalid_form("content", "BASE_TYPE_MAX_LENGTH", f"{MAX_TEXT} or fewer in length")
    return text


def check_flags(body: JsonObject) -> int:
    """Return the flags; a bot may set two."""
    flags = body.get("flags") or 0
    if not isinstance(flags, int) or flags & ~ALLOWED_FLAGS:
        raise invalid_form("flags", "MESSAGE_FLAGS", "invalid flags")
    return flags


def check_nonce(body: JsonObject) -> str | None:
    """Return the nonce."""
    nonce = body.get("nonce")
    if nonce is None:
        return None
    if not isinstance(nonce, str | int) or len(str(nonce)) > MAX_NONCE:
        raise invalid_form("nonce", "NONCE_TYPE_TOO_LONG", f"{MAX_NONCE} or fewer in length")
    return str(nonce)


def find_pings(body: JsonObject, text: str) -> bool:
    """Return whether mentions in the text notify; without `allowed_mentions` all do."""
    allowed = body.get("allowed_mentions")
    if allowed is None:
        return MENTION.search(text) is not None
    if not isinstance(allowed, dict):
        raise invalid_form("allowed_mentions", "DICT_TYPE_CONVERT", "must be an object")
    parse = allowed.get("parse")
    kinds = parse if isinstance(parse, list) else []
    if any(kind not in ("roles", "users", "everyone") for kind in kinds):
        raise invalid_form("allowed_mentions.parse", "BASE_TYPE_CHOICES", "unknown kind")
    users = allowed.get("users") or allowed.get("roles")
    return bool(kinds or users) and MENTION.search(text) is not None


def check_buttons(body: JsonObject) -> list[list[FakeButton]]:
    """Return the rows of buttons."""
    rows = body.get("components") or []
    if not isinstance(rows, list) or len(rows) > 5:
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "must be between 1 and 5")
    checked = [_check_row(row) for row in rows]
    ids = [button.custom_id for row in checked for button in row]
    if len(set(ids)) != len(ids):
        raise invalid_form("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "duplicated custom_id")
    return checked


def _check_row(row: JsonValue) -> list[FakeButton]:
    items = row.get("components") if isinstance(row, dict) and row.get("type") == 1 else None
    if not isinstance(items, list) or not 1 <= len(items) <= 5:
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "a row has 1 to 5 buttons")
    return [_check_button(item) for item in items]


def _check_button(item: JsonValue) -> FakeButton:
    if not isinstance(item, dict) or item.get("type") != 2:
        raise invalid_form("components", "UNION_TYPE_CHOICES", "not a button")
    label, custom_id = item.get("label"), item.get("custom_id")
    if item.get("style") not in (1, 2, 3, 4):
        raise invalid_form("components.style", "BASE_TYPE_CHOICES", "unknown style")
    if not isinstance(label, str) or not 1 <= len(label) <= 80:
        raise invalid_form("components.label", "BASE_TYPE_BAD_LENGTH", "1 to 80 in length")
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= 100:
        raise invalid_form("components.custom_id", "BASE_TYPE_BAD_LENGTH", "1 to 100 in length")
    return FakeButton(label, custom_id)


def check_files(
    body: JsonObject, uploads: Mapping[int, tuple[str, bytes]], new_id: Sequence[int]
) -> list[FakeFile]:
    """Return the files of a message; `attachments` must describe parts that were sent."""
    listed = body.get("attachments") or []
    if not isinstance(listed, list) or max(len(listed), len(uploads)) > MAX_FILES:
        raise invalid_form("attachments", "BASE_TYPE_MAX_LENGTH", f"{MAX_FILES} or fewer")
    numbers = [item.get("id") for item in listed if isinstance(item, dict)]
    if any(number not in uploads for number in numbers):
        raise ApiError(400, 50146, "Uploaded file not found.")
    if any(len(content) > MAX_FILE_BYTES for _, content in uploads.values()):
        raise ApiError(413, 40005, "Request entity too large")
    return [
        FakeFile(file_id, name, content, "application/octet-stream")
        for file_id, (name, content) in zip(new_id, uploads.values(), strict=False)
    ]


def check_reply(body: JsonObject, channel: DmChannel) -> int | None:
    """Return the id of the message to which this one replies."""
    reference = body.get("message_reference")
    if reference is None:
        return None
    if not isinstance(reference, dict) or not str(reference.get("message_id", "")).isdigit():
        raise invalid_form("message_reference", "NUMBER_TYPE_COERCE", "not a snowflake")
    message_id = int(str(reference["message_id"]))
    if message_id in channel.messages:
        return message_id
    if reference.get("fail_if_not_exists") is False:
        return None
    raise invalid_form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "unknown message")


def require_content(message: FakeMessage) -> None:
    """Refuse an empty message."""
    if not message.text and not message.files and not message.buttons:
        raise ApiError(400, 50006, "Cannot send an empty message")

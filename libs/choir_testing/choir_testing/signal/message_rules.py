"""The rules for the bodies of calls. Pure; `server` applies them to each call."""

import base64
import binascii
import re

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.signal.accounts import OWN_NUMBER, SignalFile, SignalMessage
from choir_testing.signal.faults import ApiError
from choir_testing.signal.text_styles import parse_styled

SEND_FIELDS = {
    *("number", "recipients", "message", "text_mode", "notify_self", "base64_attachments"),
    *("quote_timestamp", "quote_author", "quote_message", "edit_timestamp"),
}
MAX_BODY_BYTES = 2000
NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GROUP_ID_BYTES = 32
FILE_HEADER = re.compile(r"data:([^;,]+);filename=([^;,/\\]+);base64,")


def read_recipient(body: JsonObject, field: str = "recipient") -> str:
    """Return the recipient of a call. Raises ApiError."""
    value = body.get(field)
    if field == "recipients":
        if not isinstance(value, list) or len(value) != 1:
            raise ApiError(400, "Couldn't process request - please provide at least one recipient")
        (value,) = value
    recipient = text_of(value, field)
    if recipient.startswith("group."):
        check_group(recipient)
    elif not (NUMBER.fullmatch(recipient) or UUID.fullmatch(recipient)):
        raise ApiError(400, f"Invalid identifier {recipient}")
    return recipient


def check_group(recipient: str) -> None:
    """Check the id of a group, which is encoded twice. Raises ApiError."""
    try:
        internal = base64.b64decode(recipient.removeprefix("group."), validate=True)
        group_id = base64.b64decode(internal, validate=True)
    except binascii.Error as error:
        raise ApiError(400, "Invalid group id") from error
    if len(group_id) != GROUP_ID_BYTES:
        raise ApiError(400, f"Invalid Signal group size ({len(group_id)}")


def make_message(body: JsonObject, author: str, timestamp: int) -> SignalMessage:
    """Return the message of a call. Raises ApiError for anything that is not documented."""
    unknown = body.keys() - SEND_FIELDS
    if unknown:
        raise ApiError(400, f"Couldn't process request - unknown fields {sorted(unknown)}")
    if body.get("number") != OWN_NUMBER:
        raise ApiError(400, "Specified account does not exist")
    text, styles = text_of(body.get("message"), "message"), tuple[str, ...]()
    match body.get("text_mode"):
        case "styled":
            text, styles = parse_styled(text)
        case "normal":
            pass
        case other:
            raise ApiError(400, f"unknown text_mode {other!r}")
    if len(text.encode()) > MAX_BODY_BYTES:
        raise ApiError(400, "a text that clients would show only in part")
    message = SignalMessage(timestamp, author, text, styles)
    if "base64_attachments" in body:
        message.file = _read_file(body["base64_attachments"])
    elif not text.strip():
        raise ApiError(400, "Sending empty message is not allowed")
    if "quote_timestamp" in body:
        time = body["quote_timestamp"]
        if not isinstance(time, int):
            raise ApiError(400, "Couldn't process request - invalid request")
        quoted = text_of(body.get("quote_message"), "quote_message")
        message.quote = (time, text_of(body.get("quote_author"), "quote_author"), quoted)
    return message


def text_of(value: JsonValue, place: str) -> str:
    """Return a string. Raises ApiError."""
    if not isinstance(value, str):
        raise ApiError(400, f"Couldn't process request - {place} missing")
    return value


def _read_file(value: JsonValue) -> SignalFile:
    if not isinstance(value, list) or len(value) != 1:
        raise ApiError(400, "one file at a time")
    data = text_of(value[0], "base64_attachments")
    header = FILE_HEADER.match(data)
    if header is None:
        raise ApiError(400, "the header of the file is not documented")
    encoded = data[header.end() :]
    if not encoded:
        raise ApiError(400, "The base64 data does not exist.")
    return SignalFile(header[2], base64.b64decode(encoded, validate=True), header[1])

"""Validation of the events that a bot sends, by the specification. Raises ApiError."""

import json
import re

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.matrix.faults import ApiError, bad_json
from choir_testing.matrix.rooms import FakeEvent, FakeRoom

MAX_EVENT_BYTES = 65_536
MAX_INTEGER = 2**53 - 1
# The other fields of an event in the format of servers: hashes, signatures, parents.
ENVELOPE_BYTES = 1_000
MESSAGE_TYPES = {"m.text", "m.notice", "m.emote", "m.image", "m.file", "m.audio", "m.video"}
FILE_TYPES = {"m.image", "m.file", "m.audio", "m.video"}
ALLOWED_TAGS = {"strong", "em", "del", "code", "pre", "a", "blockquote", "br"}
TAG = re.compile(r"</?([a-zA-Z0-9-]+)[^>]*>")


def check_event(room: FakeRoom, event: FakeEvent) -> None:
    """Check an event that a client sends."""
    _check_canonical(event.content)
    encoded = json.dumps(event.as_json(), ensure_ascii=False, separators=(",", ":")).encode()
    if len(encoded) + ENVELOPE_BYTES > MAX_EVENT_BYTES:
        raise ApiError(413, "M_TOO_LARGE", "event too large")
    _check_relation(room, event)
    if event.type == "m.room.message":
        _check_message(event.content)
        replacement = event.content.get("m.new_content")
        if event.relates_to("m.replace") is not None:
            if not isinstance(replacement, dict):
                raise bad_json("an edit needs m.new_content")
            _check_message(replacement)
    elif event.type == "m.reaction" and not event.relation.get("key"):
        raise bad_json("a reaction needs a key")


def _check_canonical(value: JsonValue) -> None:
    """Check that a value is canonical JSON: integers only."""
    match value:
        case bool() | str() | None:
            return
        case float():
            raise bad_json("Bad JSON value: float")
        case int():
            if abs(value) > MAX_INTEGER:
                raise bad_json("JSON integer out of range")
        case list():
            for item in value:
                _check_canonical(item)
        case dict():
            for item in value.values():
                _check_canonical(item)


def _check_message(content: JsonObject) -> None:
    kind = content.get("msgtype")
    if kind not in MESSAGE_TYPES:
        raise bad_json("msgtype")
    if not isinstance(content.get("body"), str):
        raise bad_json("'body' not in content")
    html = content.get("formatted_body")
    if html is not None:
        if content.get("format") != "org.matrix.custom.html" or not isinstance(html, str):
            raise bad_json("format")
        unknown = {tag.lower() for tag in TAG.findall(html)} - ALLOWED_TAGS
        if unknown:
            raise bad_json(f"tags that clients remove: {sorted(unknown)}")
    if kind in FILE_TYPES and not str(content.get("url", "")).startswith("mxc://"):
        raise bad_json("a file needs a url")


def _check_relation(room: FakeRoom, event: FakeEvent) -> None:
    relation = event.relation
    if not relation:
        return
    if "rel_type" in relation and not isinstance(relation.get("event_id"), str):
        raise bad_json("event_id")
    reply = relation.get("m.in_reply_to")
    if reply is not None and not (
        isinstance(reply, dict) and isinstance(reply.get("event_id"), str)
    ):
        raise bad_json("m.in_reply_to")
    root = event.relates_to("m.thread")
    if root is not None:
        target = room.find(root)
        if target is None or "rel_type" in target.relation:
            raise ApiError(400, "M_UNKNOWN", "Cannot start threads from this event")
    key = (event.sender, str(relation.get("key")))
    annotated = event.relates_to("m.annotation")
    if annotated is not None and key in room.reactions(annotated):
        raise ApiError(400, "M_DUPLICATE_ANNOTATION", "Can't send same reaction twice")

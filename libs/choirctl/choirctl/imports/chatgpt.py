"""ChatGPT's data export: a ZIP file with `conversations.json`, or `conversations-000.json` and so on.

A conversation is a tree in `mapping`; an edited message and a repeated answer are branches. What is read is
the path from `current_node` to the root, as ChatGPT shows it. Custom instructions become a memory.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime

from choir_common.i18n import _
from choirctl.imports.fields import JsonDict, object_of, text_of
from choirctl.imports.items import Conversation, Item, Memory, Message, Omission, Role
from choirctl.imports.json_stream import JsonRecord, array_records
from choirctl.imports.source_files import SourceFiles
from choirctl.imports.times import parse_time

_CONVERSATIONS = re.compile(r"(^|/)conversations(-\d+)?\.json$")
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
TEXT_TYPES = ("text", "multimodal_text")


def read(files: SourceFiles) -> Iterator[Item]:
    """Yield the conversations and custom instructions of an export."""
    names = [name for name in files.names() if _CONVERSATIONS.search(name)]
    if not names:
        yield Omission("conversations.json", _("the export does not contain it"))
    seen_instructions: set[bytes] = set()
    for name in names:
        with files.open(name) as source:
            for record in array_records(source, name):
                if isinstance(record, Omission):
                    yield record
                    continue
                yield from _conversation(record)
                for memory in _instructions(record.value):
                    # hashes: the texts of a large export need not fit into memory
                    digest = hashlib.sha256(memory.text.encode("utf-8", "replace")).digest()
                    if digest not in seen_instructions:
                        seen_instructions.add(digest)
                        yield memory


def _conversation(record: JsonRecord) -> Iterator[Item]:
    value = record.value
    conversation_id = text_of(value, "conversation_id", "id")
    mapping = object_of(value, "mapping")
    if not conversation_id or not mapping:
        yield Omission(record.place, _("it has no id or no messages"))
        return
    path = _path(mapping, text_of(value, "current_node"))
    messages = [message for node in path if (message := _message(node)) is not None]
    title = text_of(value, "title")
    if messages:
        started_at = parse_time(value.get("create_time"))
        yield Conversation(conversation_id, title, started_at, tuple(messages))
    else:
        yield Omission(f"{record.place} ({title[:60]})", _("it has no messages with text"))


def _path(mapping: JsonDict, current: str) -> list[JsonDict]:
    """Return the nodes from the root to the current one, or to the newest if that is missing."""
    if current not in mapping:
        current = _newest(mapping)
    path: list[JsonDict] = []
    seen: set[str] = set()
    # `seen`: the parents of a crafted file may form a circle
    while current in mapping and current not in seen:
        seen.add(current)
        node = object_of(mapping, current)
        path.append(node)
        current = text_of(node, "parent")
    return path[::-1]


def _newest(mapping: JsonDict) -> str:
    def created_at(key: str) -> float:
        message = object_of(object_of(mapping, key), "message")
        time = parse_time(message.get("create_time"))
        return time.timestamp() if time else 0.0

    return max(mapping, key=created_at)


def _message(node: JsonDict) -> Message | None:
    """Return the message of a node, or None: system texts, tools, thoughts and hidden messages."""
    message = object_of(node, "message")
    role = ROLES.get(text_of(object_of(message, "author"), "role"))
    content = object_of(message, "content")
    is_hidden = object_of(message, "metadata").get("is_visually_hidden_from_conversation")
    recipient = text_of(message, "recipient") or "all"
    if role is None or is_hidden or recipient != "all":
        return None
    if text_of(content, "content_type") not in TEXT_TYPES:
        return None
    parts = content.get("parts")
    texts = [_part(part) for part in parts] if isinstance(parts, list) else []
    text = "\n\n".join(part for part in texts if part)
    return Message(role, text, parse_time(message.get("create_time"))) if text else None


def _part(part: object) -> str:
    match part:
        case str():
            return part.strip()
        case {"content_type": "audio_transcription", "text": str(text)}:
            return text.strip()
        case _:
            return ""


def _instructions(value: JsonDict) -> Iterator[Memory]:
    for node in object_of(value, "mapping").values():
        message = object_of(node, "message") if isinstance(node, dict) else {}
        content = object_of(message, "content")
        if text_of(content, "content_type") != "user_editable_context":
            continue
        at: datetime | None = parse_time(value.get("create_time"))
        for field in ("user_profile", "user_instructions"):
            if text := text_of(content, field).strip():
                yield Memory(f"custom instructions/{field}", text, at)

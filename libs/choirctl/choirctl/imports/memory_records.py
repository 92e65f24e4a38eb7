"""Make records of an agent's memory of what was read: pure, and the same for the same export.

Ids are derived from the source, the conversation and the text, so a repeated import finds everything there.
All texts have the origin and trust of text from outside: searches find them, and nothing is learned from
them.
"""

import hashlib
from datetime import datetime
from uuid import UUID, uuid5

from choir_common.i18n import ngettext
from choir_common.redactor import mask_likely_keys
from choir_common.wire.memory_records import (
    ArchivedSessionRecord,
    KnowledgeRecord,
    Record,
    SessionRecord,
)
from choir_common.wire.model import JsonObject
from choirctl.imports.items import Conversation, Memory, Omission

NAMESPACE = UUID("0e9a54b5-1b0f-4c5d-9f0e-3a4f3d1f7c21")
ORIGIN = "web"
TRUST = 10
"""As of web pages and mail: services/memory has the table, and a test compares it."""
PART_CHARS = 4_000
MAX_TITLE = 200


def conversation_records(
    conversation: Conversation, source: str
) -> tuple[list[Record], list[Omission]]:
    """Return the records of a conversation, and what of it has no date."""
    session_id = session_id_of(conversation.conversation_id, source)
    title = _clean(conversation.title)[:MAX_TITLE]
    labels: JsonObject = {"import": source, "title": title}
    records: list[Record] = []
    at = conversation.started_at
    undated = 0
    times: list[datetime] = []
    for message in conversation.messages:
        # a message without a date has the one of the message before it
        at = message.at or at
        if at is None:
            undated += 1
            continue
        times.append(at)
        for part in split_text(_clean(message.text)):
            index = len(records)
            records.append(
                SessionRecord(
                    id=_id(source, session_id, str(index), part),
                    session_id=session_id,
                    tier="long_term_detail",
                    chunk_index=index,
                    text=part,
                    created_at=at,
                    happened_at=at,
                    metadata=labels,
                    speaker=f"{message.role} ({source})",
                    origin=ORIGIN,
                    trust=TRUST,
                )
            )
    reason = ngettext("{count} message has no date", "{count} messages have no date", undated)
    omissions = [Omission(session_id, reason)] if undated else []
    if not times:
        return [], omissions
    start, end = min(times), max(times)
    head = ArchivedSessionRecord(
        session_id=session_id, started_at=start, ended_at=end, promoted_at=end, summary=title
    )
    return [head, *records], omissions


def memory_records(memory: Memory, source: str, default_at: datetime) -> list[Record]:
    """Return the notes of a memory, one for each part of its text."""
    at = memory.at or default_at
    name = _clean(memory.name)[:MAX_TITLE]
    return [
        KnowledgeRecord(
            id=_id(source, "memory", name, part),
            key=f"{key_prefix(source)}{name}.{_digest(part)}",
            text=part,
            created_at=at,
            updated_at=at,
            happened_at=at,
            metadata={"import": source, "from": name},
            origin=ORIGIN,
            trust=TRUST,
        )
        for part in dict.fromkeys(split_text(_clean(memory.text)))
    ]


def session_id_of(conversation_id: str, source: str) -> str:
    """Return the id of a conversation in memory."""
    return f"import_{source}_{_digest(conversation_id)}"


def key_prefix(source: str) -> str:
    """Return how the keys of all notes of a source begin."""
    return f"import.{source}."


def split_text(text: str) -> list[str]:
    """Split a text into parts of at most `PART_CHARS`, at paragraphs or lines where there are some."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > PART_CHARS:
        head = rest[:PART_CHARS]
        cut = max(head.rfind("\n\n"), 0) or max(head.rfind("\n"), head.rfind(". "), 0) or PART_CHARS
        parts.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [part for part in (*parts, rest) if part]


def _clean(text: str) -> str:
    # lone surrogates of broken JSON escapes have no UTF-8
    return mask_likely_keys(text.replace("\x00", "").encode("utf-8", "replace").decode())


def _id(*parts: str) -> str:
    return str(uuid5(NAMESPACE, "\x1f".join(parts)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

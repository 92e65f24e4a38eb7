"""Types of documents: tiers, kinds, links, the trust of each origin, and a row before it is stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid5

from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT, TOOL_OUTPUT
from choir_common.wire.memory_search import Grain, MemoryReader
from choir_common.wire.memory_sessions import Origin, UnitKind
from choir_common.wire.model import JsonObject
from choir_memory.text.tokens import document_tokens

Tier = Literal["mid_term", "long_term_summary", "long_term_detail", "grain_summary"]
KnowledgeKind = Literal["note", "fact", "rule", "episode", "error", "entity", "document_chunk"]
LinkKind = Literal["evidence", "supersedes", "mentions", "rolls_up"]
Conversations = tuple[str, ...] | None
"""The conversations that a document comes from: a reader may find it if all of them are the reader's. Empty:
it belongs to all. None: it is of before memory stored conversations, or of an unknown one, and belongs to
the person of the home conversation."""

__all__ = ["Grain", "KnowledgeKind", "LinkKind", "Origin", "Tier", "UnitKind"]

TRUST: Mapping[Origin, int] = {
    "web": OUTSIDE_OUTPUT.trust,
    "tool": TOOL_OUTPUT.trust,
    "agent": 50,
    "user": 70,
    "operator": 90,
    # only for unknown sources; where they are known, `least_trust` of them applies
    "derived": 30,
}
"""Trust of each origin, from 0 (none) to 100 (full)."""

_NAMESPACE = UUID("5b1c6d0e-6b1f-4c55-9d1e-0f6f2a3f8f11")


def least_trust(sources: Iterable[int]) -> int:
    """Return the trust of a document derived from these sources: the lowest of theirs."""
    return min(sources, default=TRUST["derived"])


def document_id(*source: str) -> UUID:
    """Return a deterministic id derived from `source`, so that a repeated run creates the same rows."""
    return uuid5(_NAMESPACE, "\x1f".join(source))


def readable_sql(reader: MemoryReader) -> str:
    """Return the condition of the documents `d` that a reader may find; `$` is its array of conversations."""
    condition = "d.conversations <@ $::text[]"
    return f"(d.conversations IS NULL OR {condition})" if reader.with_older else condition


def is_readable(reader: MemoryReader | None, conversations: Conversations) -> bool:
    """Return whether a reader may find a document of these conversations."""
    if reader is None:
        return True
    if conversations is None:
        return reader.with_older
    return set(conversations) <= set(reader.conversations)


def readable_clause(reader: MemoryReader | None, first: int) -> tuple[str, tuple[list[str], ...]]:
    """Return ` AND …` for a statement on documents `d` with its one argument; nothing without a reader."""
    if reader is None:
        return "", ()
    return f" AND {readable_sql(reader).replace('$', f'${first}')}", (list(reader.conversations),)


def parse_conversations(value: Sequence[str] | None) -> Conversations:
    """Return conversations as they are stored."""
    return None if value is None else tuple(value)


def merged_conversations(sources: Iterable[Conversations]) -> Conversations:
    """Return the conversations of a document that is derived from several: all of them."""
    names: set[str] = set()
    for conversations in sources:
        if conversations is None:
            return None
        names.update(conversations)
    return tuple(sorted(names))


def conversations_sql(conversations: Conversations) -> str | None:
    """Return conversations as the text of an SQL array. Their names need quotes, but no escapes."""
    if conversations is None:
        return None
    return "{" + ",".join(f'"{name}"' for name in conversations) + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """One unit of session memory, the item that search ranks; `session_id` is None for a summary of a
    period."""

    document_id: UUID
    session_id: str | None
    tier: Tier
    chunk_index: int
    kind: UnitKind
    text: str
    happened_at: datetime
    origin: Origin
    trust: int
    ended_at: datetime | None = None
    speaker: str | None = None
    first_rev: int | None = None
    last_rev: int | None = None
    grain: Grain | None = None
    period: str | None = None
    expires_at: datetime | None = None
    metadata: JsonObject = field(default_factory=dict)
    conversations: Conversations = ()

    def tokens(self) -> list[str]:
        """Return the search tokens of the speaker and the text."""
        return unit_tokens(self.speaker, self.text)


def unit_tokens(speaker: str | None, text: str) -> list[str]:
    """Return the search tokens of a unit: of its speaker and its text."""
    return document_tokens(f"{speaker or ''}\n{text}")

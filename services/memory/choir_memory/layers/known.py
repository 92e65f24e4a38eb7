"""A derived or added knowledge document before it is stored. Next is `known_store`."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from choir_common.wire.json import JsonObject
from choir_memory.documents.kinds import KnowledgeKind, Origin
from choir_memory.words.tokens import document_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One document; its id is derived from its source."""

    document_id: UUID
    kind: KnowledgeKind
    text: str
    origin: Origin
    trust: int
    status: Literal["active", "held"] = "active"
    category: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    evidence: str | None = None
    happened_at: datetime | None = None
    valid_from: datetime | None = None
    expires_at: datetime | None = None
    collection: str | None = None
    chunk_index: int | None = None
    metadata: JsonObject = field(default_factory=dict)

    def tokens(self) -> list[str]:
        """Return the search tokens of the text."""
        return document_tokens(self.text)

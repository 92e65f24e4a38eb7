"""Records of an agent's memory: the lines of an export, format 1.

They contain every column that cannot be derived from others; vectors and search tokens can. A test compares
these models with the tables.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from choir_common.wire.model import AwareTime, JsonObject, WireModel

RecordId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
# Generous limits: the endpoints that accept this data have stricter ones.
RecordText = Annotated[str, StringConstraints(max_length=1_000_000, pattern=r"^[^\x00]*$")]
Label = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


class SessionRecord(WireModel):
    """A unit of session memory."""

    type: Literal["session"] = "session"
    id: RecordId
    session_id: Label | None = None
    """None: a summary of a period."""
    tier: Label
    chunk_index: Int32
    first_rev: Int64 | None = None
    last_rev: Int64 | None = None
    text: RecordText
    version: Int32 = 1
    created_at: AwareTime
    metadata: JsonObject = Field(default_factory=dict)
    kind: Label = "turn"
    speaker: Label | None = None
    happened_at: AwareTime
    ended_at: AwareTime | None = None
    grain: Label | None = None
    period: Label | None = None
    origin: Label = "agent"
    trust: int = Field(default=50, ge=0, le=100)
    expires_at: AwareTime | None = None
    keep_vectors: bool = True
    """False: `retention.vectors` removed its vectors, and only text search can find it."""
    conversations: tuple[Label, ...] | None = None
    """The conversations that it comes from; empty: none. None: of before memory stored them."""


class KnowledgeRecord(WireModel):
    """A document of knowledge."""

    type: Literal["knowledge"] = "knowledge"
    id: RecordId
    key: Label | None = None
    text: RecordText
    version: Int32 = 1
    created_at: AwareTime
    updated_at: AwareTime
    metadata: JsonObject = Field(default_factory=dict)
    kind: Label = "note"
    status: Label = "active"
    category: Label | None = None
    subject: RecordText | None = None
    predicate: RecordText | None = None
    object: RecordText | None = None
    evidence: RecordText | None = None
    happened_at: AwareTime | None = None
    valid_from: AwareTime | None = None
    valid_to: AwareTime | None = None
    retired_at: AwareTime | None = None
    status_before: Literal["active", "held"] | None = None
    """Status before another document replaced it; None: it was not replaced."""
    valid_to_before: AwareTime | None = None
    seen_count: Int32 = 1
    expires_at: AwareTime | None = None
    collection: Label | None = None
    chunk_index: Int32 | None = None
    origin: Label = "agent"
    trust: int = Field(default=50, ge=0, le=100)
    conversations: tuple[Label, ...] | None = None
    """As in session memory."""


class LinkRecord(WireModel):
    """A link between two documents."""

    type: Literal["link"] = "link"
    from_id: RecordId
    kind: Label
    to_id: RecordId


class ArchivedSessionRecord(WireModel):
    """A session with stored units: its times, and whether it was promoted to long-term memory."""

    type: Literal["passed_session"] = "passed_session"
    session_id: Label
    started_at: AwareTime
    ended_at: AwareTime | None = None
    promoted_at: AwareTime | None = None
    summary: RecordText = ""
    topics: list[JsonValue] = Field(default_factory=list)


class ExtractionCursor(WireModel):
    """The last turn from which facts and rules were extracted; absent in exports of older versions.

    It comes before all other records, because extraction may start before the import is complete.
    """

    type: Literal["extraction_cursor"] = "extraction_cursor"
    created_at: AwareTime
    session_id: Label
    chunk_index: Int32


Record = Annotated[
    SessionRecord | KnowledgeRecord | LinkRecord | ArchivedSessionRecord | ExtractionCursor,
    Field(discriminator="type"),
]


class ExportHeader(WireModel):
    """The first line of an export, with the format's version in `choir_memory`."""

    choir_memory: Literal[1] = 1
    agent_id: str
    exported_at: AwareTime


class ExportFooter(WireModel):
    """The last line; without it, or with another record count, the file is incomplete."""

    end: Literal[True] = True
    records: int

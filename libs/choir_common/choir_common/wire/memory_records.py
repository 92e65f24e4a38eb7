"""Records of an agent's memory: the lines of an export, format 1.

They contain every column that cannot be derived from others; vectors and search tokens can. A test compares
these models with the tables.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Moment, Wire

RecordId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
# Generous limits: the endpoints that accept this data have stricter ones.
Words = Annotated[str, StringConstraints(max_length=1_000_000, pattern=r"^[^\x00]*$")]
Label = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Small = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Big = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


class SessionRecord(Wire):
    """A unit of session memory."""

    type: Literal["session"] = "session"
    id: RecordId
    session_id: Label | None
    tier: Label
    chunk_index: Small
    first_rev: Big | None = None
    last_rev: Big | None = None
    text: Words
    version: Small = 1
    created_at: Moment
    metadata: JsonObject = Field(default_factory=dict)
    kind: Label = "turn"
    speaker: Label | None = None
    happened_at: Moment
    ended_at: Moment | None = None
    grain: Label | None = None
    period: Label | None = None
    origin: Label = "agent"
    trust: int = Field(default=50, ge=0, le=100)
    expires_at: Moment | None = None
    keep_vectors: bool = True
    """False: `retention.vectors` removed its vectors, and only text search can find it."""


class KnowledgeRecord(Wire):
    """A document of knowledge."""

    type: Literal["knowledge"] = "knowledge"
    id: RecordId
    key: Label | None = None
    text: Words
    version: Small = 1
    created_at: Moment
    updated_at: Moment
    metadata: JsonObject = Field(default_factory=dict)
    kind: Label = "note"
    status: Label = "active"
    category: Label | None = None
    subject: Words | None = None
    predicate: Words | None = None
    object: Words | None = None
    evidence: Words | None = None
    happened_at: Moment | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    retired_at: Moment | None = None
    seen_count: Small = 1
    expires_at: Moment | None = None
    collection: Label | None = None
    chunk_index: Small | None = None
    origin: Label = "agent"
    trust: int = Field(default=50, ge=0, le=100)


class LinkRecord(Wire):
    """A link between two documents."""

    type: Literal["link"] = "link"
    from_id: RecordId
    kind: Label
    to_id: RecordId


class PassedSession(Wire):
    """A session with stored units: its times, and whether it was promoted to long-term memory."""

    type: Literal["passed_session"] = "passed_session"
    session_id: Label
    started_at: Moment
    ended_at: Moment | None = None
    promoted_at: Moment | None = None
    summary: Words = ""
    topics: list[JsonValue] = Field(default_factory=list)


class ExtractionCursor(Wire):
    """The last turn from which facts and rules were extracted; absent in exports of older versions.

    It comes before all other records, because extraction may start before the import is complete.
    """

    type: Literal["extraction_cursor"] = "extraction_cursor"
    created_at: Moment
    session_id: Label
    chunk_index: Small


Record = Annotated[
    SessionRecord | KnowledgeRecord | LinkRecord | PassedSession | ExtractionCursor,
    Field(discriminator="type"),
]


class ExportHead(Wire):
    """The first line of an export, with the format's version in `choir_memory`."""

    choir_memory: Literal[1] = 1
    agent_id: str
    exported_at: Moment


class ExportEnd(Wire):
    """The last line; without it, or with another record count, the file is incomplete."""

    end: Literal[True] = True
    records: int

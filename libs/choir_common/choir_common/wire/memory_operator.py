"""Operator requests to an agent's memory: list, show, write, erase, export and import."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.memory_records import Record
from choir_common.wire.memory_search import (
    MAX_DAYS_AGO,
    DocumentName,
    DocumentText,
    Grain,
    Key,
    Kind,
    Label,
    Since,
    Until,
    WritableStatus,
)
from choir_common.wire.model import UUID_PATTERN, AgentName, AwareTime, JsonObject, WireModel

Store = Literal["session", "knowledge"]
Uuid = Annotated[str, StringConstraints(pattern=UUID_PATTERN)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]

MAX_RECORDS = 500
"""Records in one import request."""


class ListMemory(WireModel):
    """List documents of one store, newest first; `cursor` is `next` of the previous page."""

    agent_id: AgentName
    store: Store = "knowledge"
    kinds: tuple[Kind, ...] = ()
    session_id: Word | None = None
    key_prefix: Key | None = None
    speakers: tuple[Label, ...] = Field(default=(), max_length=20)
    grain: Grain | None = None
    """Only summaries of this grain."""
    since: Since | None = None
    until: Until | None = None
    min_days_ago: int | None = Field(default=None, ge=0, le=MAX_DAYS_AGO)
    max_days_ago: int | None = Field(default=None, ge=0, le=MAX_DAYS_AGO)
    collection: Word | None = None
    min_trust: int = Field(default=0, ge=0, le=100)
    tags: JsonObject = Field(default_factory=dict)
    """Entries that the metadata must contain."""
    scopes: tuple[Label, ...] = Field(default=(), max_length=20)
    hidden: bool = False
    """Include documents that searches exclude: retired, held and expired ones."""
    cursor: Word | None = None
    limit: int = Field(default=50, ge=1, le=200)


class DocumentView(WireModel):
    """A document in a list: `text` is its beginning, `length` its full length in characters."""

    document_id: str
    store: Store
    kind: str
    key: str | None
    text: str
    length: int
    version: int
    status: str
    """active, held, retired, expired, or upcoming: not valid yet."""
    tier: str | None
    session_id: str | None
    speaker: str | None
    origin: str
    trust: int
    at: AwareTime
    """When it happened, otherwise when it was written."""
    grain: Grain | None = None
    period: str | None = None
    """Of a time summary: its period, such as 2024-W03."""
    valid_from: AwareTime | None = None
    valid_to: AwareTime | None = None
    superseded_by: tuple[str, ...] = ()
    """Ids of the documents that replace it."""


class DocumentPage(WireModel):
    """A page of a list; pass `next` as `cursor` to get the next one."""

    items: tuple[DocumentView, ...]
    next: str | None = None


class ShowDocument(WireModel):
    """Request one complete document."""

    agent_id: AgentName
    name: DocumentName


class LinkView(WireModel):
    """A link: the source of a document (`from`), or a document derived from it (`to`)."""

    kind: str
    direction: Literal["from", "to"]
    document_id: str
    text: str | None
    """The beginning of the linked document; None if it no longer exists."""


class DocumentDetail(WireModel):
    """A document with all its fields and links."""

    record: Record
    vectors: int
    """Number of its parts that the active model has embedded."""
    links: tuple[LinkView, ...]


class PutDocument(WireModel):
    """Write knowledge: under a key, over a document, or as a new document."""

    text: DocumentText | None = None
    """Without it only status, validity, and what the document supersedes change."""
    key: Key | None = None
    document_id: Uuid | None = None
    metadata: JsonObject = Field(default_factory=dict)
    expected_version: int | None = Field(default=None, ge=0, le=2**31 - 1)
    call_id: str | None = Field(default=None, min_length=1, max_length=100)
    """Idempotency key; repeated requests with the same one are done once."""
    status: WritableStatus | None = None
    valid_from: Since | None = None
    valid_to: Until | None = None
    supersedes: tuple[DocumentName, ...] = Field(default=(), max_length=20)
    """Documents (ids or keys) that this one replaces."""


class DeleteDocument(WireModel):
    """Erase a document of either store, and everything derived from it alone."""

    agent_id: AgentName
    name: DocumentName
    expected_version: int | None = Field(default=None, ge=1, le=2**31 - 1)


class MemoryErased(WireModel):
    """Number of documents erased: the named ones and those derived from them."""

    documents: int
    derived: int


class ExportMemory(WireModel):
    """Request a page of the full export; `cursor` is `next` of the previous page."""

    agent_id: AgentName
    cursor: Word | None = None


class ExportedPage(WireModel):
    """A page of records in a fixed order; the last page has no `next`."""

    records: tuple[Record, ...]
    next: str | None = None


class ImportRecords(WireModel):
    """A part of an export to import; the last part completes the import."""

    import_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """The same for every part and every retry of the same file."""
    first: int = Field(ge=0)
    """Index of the first of these records in the file."""
    total: int = Field(ge=0)
    records: tuple[Record, ...] = Field(max_length=MAX_RECORDS)


class ImportPart(WireModel):
    """A part of an import into an agent's memory."""

    agent_id: AgentName
    piece: ImportRecords


class MemoryImported(WireModel):
    """Result of importing one part."""

    written: int
    unchanged: int
    refused: tuple[str, ...]
    """Ids already used by a different document, which was left unchanged."""
    finished: bool


class AuditQuery(WireModel):
    """Read the audit log of an agent's memory, newest first."""

    agent_id: AgentName
    before: int | None = Field(default=None, ge=1)
    limit: int = Field(default=50, ge=1, le=500)


class AuditEntry(WireModel):
    """One operation: who did it, and on which documents."""

    number: int
    at: AwareTime
    agent_id: str
    actor: str
    operation: str
    document_ids: tuple[str, ...]
    detail: JsonObject


class AuditEntries(WireModel):
    """A page; pass the last entry's number as `before` to get the next one."""

    items: tuple[AuditEntry, ...]


class ListFeedback(WireModel):
    """Read users' feedback on the conduct of an agent's sessions, newest first."""

    agent_id: AgentName
    session_id: Word | None = None
    limit: int = Field(default=50, ge=1, le=200)


class FeedbackView(WireModel):
    """A user's judgement; `text` is the message that contains it."""

    session_id: str
    document_id: str
    label: Literal["positive", "negative"]
    at: AwareTime
    text: str


class FeedbackPage(WireModel):
    """The newest feedback; it is no part of what the agent remembers."""

    items: tuple[FeedbackView, ...]


class ReadMemoryState(WireModel):
    """Request counts and sizes of an agent's memory."""

    agent_id: AgentName


class DocumentCount(WireModel):
    """Number of documents of one kind."""

    store: Store
    kind: str
    tier: str | None
    documents: int
    without_vector: int
    """Those that still need a vector."""


class UnfinishedImport(WireModel):
    """An incomplete import; import the same file again to resume it."""

    import_id: str
    done: int
    total: int


class AgentMemory(WireModel):
    """Counts and sizes of an agent's memory."""

    agent_id: str
    counts: tuple[DocumentCount, ...]
    queued: int
    """Documents of this agent that wait for a vector."""
    bytes: int
    unfinished_imports: tuple[UnfinishedImport, ...]

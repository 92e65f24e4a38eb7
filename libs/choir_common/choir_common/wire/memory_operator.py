"""What an operator asks of an agent's memory: look, write, erase, carry away and bring back (spec 11.6)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.json import JsonObject
from choir_common.wire.memories import Key, Kind, Text
from choir_common.wire.memory_records import Record
from choir_common.wire.model import AgentName, Moment, Wire

Store = Literal["session", "knowledge"]
Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
DocumentName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A document's id, or the key of knowledge."""
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]

MAX_RECORDS = 500
"""In one request of an import."""


class ListMemory(Wire):
    """Ask for documents of one store, newest first, `cursor` from the page before."""

    agent_id: AgentName
    store: Store = "knowledge"
    kind: Kind | None = None
    session_id: Word | None = None
    key_prefix: Key | None = None
    hidden: bool = False
    """Also what no search finds: retired, held and expired."""
    cursor: Word | None = None
    limit: int = Field(default=50, ge=1, le=200)


class DocumentView(Wire):
    """A document in a list: `text` is its beginning, `length` all of it in characters."""

    document_id: str
    store: Store
    kind: str
    key: str | None
    text: str
    length: int
    version: int
    status: str
    """active, held, retired or expired."""
    tier: str | None
    session_id: str | None
    speaker: str | None
    origin: str
    trust: int
    at: Moment
    """When it happened, else when it was written."""


class DocumentPage(Wire):
    """A page of a list; pass `next` as `cursor` for the one after it."""

    items: tuple[DocumentView, ...]
    next: str | None = None


class ShowDocument(Wire):
    """Ask for one document whole."""

    agent_id: AgentName
    name: DocumentName


class LinkView(Wire):
    """Why a document is there (`from`), or what stands on it (`to`)."""

    kind: str
    direction: Literal["from", "to"]
    document_id: str
    text: str | None
    """The beginning of the other one; none if it is gone."""


class DocumentDetail(Wire):
    """All that is known of a document."""

    record: Record
    vectors: int
    """How many parts of it the active model has embedded."""
    links: tuple[LinkView, ...]


class PutDocument(Wire):
    """Write knowledge: under a key, over a document, or new."""

    text: Text
    key: Key | None = None
    document_id: Uuid | None = None
    metadata: JsonObject = Field(default_factory=dict)
    expected_version: int | None = Field(default=None, ge=0, le=2**31 - 1)
    call_id: str | None = Field(default=None, min_length=1, max_length=100)
    """Repeated under the same one, it is done once."""


class DeleteDocument(Wire):
    """Erase a document of either store, and what only it supported."""

    agent_id: AgentName
    name: DocumentName
    expected_version: int | None = Field(default=None, ge=1, le=2**31 - 1)


class MemoryErased(Wire):
    """How many documents are gone, those that were named and those that stood on them."""

    documents: int
    derived: int


class ExportMemory(Wire):
    """Ask for a page of everything; `cursor` from the page before."""

    agent_id: AgentName
    cursor: Word | None = None


class ExportedPage(Wire):
    """Records in an order of their own; without `next` it is the last page."""

    records: tuple[Record, ...]
    next: str | None = None


class ImportRecords(Wire):
    """Bring in a piece of an export; the last one ends the import."""

    import_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """The same for every piece and for every try of the same file."""
    first: int = Field(ge=0)
    """How many records of the file come before these."""
    total: int = Field(ge=0)
    records: tuple[Record, ...] = Field(max_length=MAX_RECORDS)


class BringIn(Wire):
    """A piece of an import into an agent's memory."""

    agent_id: AgentName
    piece: ImportRecords


class MemoryImported(Wire):
    """What became of the records of a piece."""

    written: int
    unchanged: int
    refused: tuple[str, ...]
    """Ids whose place is taken by something that says otherwise; that was left as it is."""
    finished: bool


class AuditQuery(Wire):
    """Ask who did what to an agent's memory, newest first."""

    agent_id: AgentName
    before: int | None = Field(default=None, ge=1)
    limit: int = Field(default=50, ge=1, le=500)


class AuditEntry(Wire):
    """One operation: by whom, on which documents."""

    number: int
    at: Moment
    agent_id: str
    actor: str
    operation: str
    document_ids: tuple[str, ...]
    detail: JsonObject


class AuditEntries(Wire):
    """A page; pass the last one's number as `before` for the one after it."""

    items: tuple[AuditEntry, ...]


class ReadState(Wire):
    """Ask how an agent's memory stands."""

    agent_id: AgentName


class StoreCount(Wire):
    """How many documents of one kind there are."""

    store: Store
    kind: str
    tier: str | None
    documents: int
    without_vector: int
    """Of those that are to have one."""


class UnfinishedImport(Wire):
    """An import that has begun and not ended; give the same file again to go on."""

    import_id: str
    done: int
    total: int


class AgentMemory(Wire):
    """How an agent's memory stands."""

    agent_id: str
    counts: tuple[StoreCount, ...]
    queued: int
    """Documents of this agent that wait for a vector."""
    bytes: int
    unfinished_imports: tuple[UnfinishedImport, ...]

"""Document collections in an agent's memory: documents that operators add, and folders that are followed."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from choir_common.wire.model import UUID_PATTERN, AgentName, AwareTime, WireModel

MAX_DOCUMENT = 200_000
"""Characters of a document in JSON; a longer one can be uploaded as a file."""
MAX_FILE_TEXT = 1_000_000
"""Characters of a file's text: a book of 500 pages, and at most 6 MB of JSON, which the bus can carry."""
MAX_FILE_PART = 1024 * 1024
"""Bytes of a file in one request on the bus."""
INTERRUPTED = "The upload of {name} was interrupted. Upload the file again."
CollectionName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
MAX_DOCUMENT_NAME = 200
DocumentName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]
MAX_PATH = 4_096
"""Characters of a path, as Linux limits it."""
FolderPath = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f\x7f]*$", max_length=MAX_PATH)]
"""Absolute path of a folder, as the memory service sees it."""
FolderState = Literal["waiting", "reading", "current", "unreachable", "removing"]
"""`waiting`: not scanned yet. `reading`: new and changed files are being read. `current`: the collection
equals the folder as of the last scan. `unreachable`: the folder cannot be scanned now, and its documents
stay. `removing`: its documents are being erased."""


class NewDocument(WireModel):
    """A document in an operator's request."""

    name: DocumentName
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DOCUMENT)]


class AddDocument(WireModel):
    """Add a document to a collection; it replaces the one with the same name."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName
    # longer than a file's text, because a mask may be longer than the secret that it replaces
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_FILE_TEXT + 200_000)]
    headings: bool = True
    """Whether lines that begin with `#` are headings."""
    is_from_web: bool = False
    """Whether its author is somebody whom nobody here knows: it is a web page or a mail."""


class FilePart(WireModel):
    """A part of a file whose text is to be read; each is sent after the answer to the one before."""

    # bytes in JSON are text, as base64
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    upload_id: Annotated[str, StringConstraints(pattern=UUID_PATTERN)]
    """New for each attempt."""
    name: DocumentName
    offset: int = Field(ge=0)
    """Number of bytes in the parts before."""
    content: bytes = Field(max_length=MAX_FILE_PART)
    is_last: bool


class FileText(WireModel):
    """Answer to a part of a file; `text` is None until the last part."""

    text: str | None = None
    headings: bool = True
    """Whether lines that begin with `#` are headings."""
    is_from_web: bool = False
    """Whether the file is a web page or a mail."""


class DocumentAdded(WireModel):
    """Result of the addition; repeating the same text is `unchanged`."""

    operation: Literal["added", "replaced", "unchanged"]
    chunks: int
    """Number of parts that search ranks."""


class FollowFolder(WireModel):
    """Make a collection follow a folder that the memory service can read; repeating it starts a scan."""

    agent_id: AgentName
    collection: CollectionName
    folder: FolderPath


class NewFolder(WireModel):
    """A folder in an operator's request."""

    folder: FolderPath


class ListCollections(WireModel):
    """List an agent's collections, or one of them."""

    agent_id: AgentName
    collection: CollectionName | None = None


class FolderProgress(WireModel):
    """The folder that a collection follows, and how far its files have been read."""

    path: str
    state: FolderState
    files: int
    """Files of a format that is read, in the folder and below it."""
    waiting: int
    """New and changed files that have not been read yet."""
    unreadable: int
    """Files without a document, because they could not be read."""
    scanned_at: AwareTime | None = None
    """When the collection was last equal to the folder."""
    problem: str = ""
    """Why the folder cannot be scanned."""


class CollectionView(WireModel):
    """A collection; `folder` is None if its documents were added one by one."""

    name: str
    documents: int
    chunks: int
    """Number of parts that search ranks."""
    folder: FolderProgress | None = None


class Collections(WireModel):
    """An agent's collections, sorted by name."""

    collections: tuple[CollectionView, ...]


class ListDocuments(WireModel):
    """List the documents of a collection, page by page."""

    agent_id: AgentName
    collection: CollectionName
    after: str | None = Field(default=None, max_length=MAX_PATH)
    """Name of the last document of the page before."""
    limit: int = Field(default=1_000, ge=1, le=1_000)
    unreadable: bool = False
    """Only files that could not be read."""


class CollectionDocument(WireModel):
    """A document of a collection; a file that could not be read has a `problem` and no parts."""

    name: str
    chunks: int
    characters: int
    added_at: AwareTime | None
    """None for a file that has not been read yet."""
    problem: str = ""


class CollectionDocuments(WireModel):
    """A page of documents, sorted by name."""

    documents: tuple[CollectionDocument, ...]
    more: bool = False
    """Whether another page follows."""


class RemoveDocuments(WireModel):
    """Erase a document, or the whole collection, with everything derived from it alone."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName | None = Field(default=None)


class DocumentsRemoved(WireModel):
    """Number of documents and parts erased; those of a folder are erased in the background."""

    documents: int
    chunks: int

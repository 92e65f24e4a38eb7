"""Document collections that operators add to an agent's memory."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, AwareTime, WireModel

MAX_DOCUMENT = 200_000
"""Characters of one document; a longer one should be split into chapters."""
CollectionName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
DocumentName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]


class NewDocument(WireModel):
    """A document in an operator's request."""

    name: DocumentName
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DOCUMENT)]


class AddDocument(WireModel):
    """Add a document to a collection; it replaces the one with the same name."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DOCUMENT)]


class DocumentAdded(WireModel):
    """Result of the addition; repeating the same text is `unchanged`."""

    operation: Literal["added", "replaced", "unchanged"]
    chunks: int
    """Number of parts that search ranks."""


class ListCollections(WireModel):
    """List an agent's documents, of one collection if it is named."""

    agent_id: AgentName
    collection: CollectionName | None = None


class CollectionDocument(WireModel):
    """A document of a collection."""

    collection: str
    name: str
    chunks: int
    characters: int
    added_at: AwareTime


class CollectionDocuments(WireModel):
    """The documents, sorted by collection and name."""

    documents: tuple[CollectionDocument, ...]


class RemoveDocuments(WireModel):
    """Erase a document, or the whole collection, with everything derived from it alone."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName | None = Field(default=None)


class DocumentsRemoved(WireModel):
    """Number of documents and parts erased."""

    documents: int
    chunks: int

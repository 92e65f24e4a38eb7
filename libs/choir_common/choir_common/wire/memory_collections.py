"""Documents that somebody brought to an agent's memory, in collections."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, Moment, Wire

MAX_DOCUMENT = 200_000
"""Characters of one document; a longer one is several chapters."""
CollectionName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
DocumentName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]


class BringDocument(Wire):
    """A document as an operator hands it over."""

    name: DocumentName
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DOCUMENT)]


class AddDocument(Wire):
    """Put a document into a collection, in place of the one of that name."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DOCUMENT)]


class DocumentAdded(Wire):
    """What became of it; the same text again is `unchanged`."""

    operation: Literal["added", "replaced", "unchanged"]
    chunks: int
    """Pieces that search ranks."""


class ListCollections(Wire):
    """What has been brought to an agent; of one collection only if it is named."""

    agent_id: AgentName
    collection: CollectionName | None = None


class BroughtDocument(Wire):
    """A document of a collection."""

    collection: str
    name: str
    chunks: int
    characters: int
    added_at: Moment


class BroughtDocuments(Wire):
    """All of them, by collection and name."""

    documents: tuple[BroughtDocument, ...]


class RemoveDocuments(Wire):
    """Erase a document of a collection, or the whole collection, with all that tells of it."""

    agent_id: AgentName
    collection: CollectionName
    name: DocumentName | None = Field(default=None)


class DocumentsRemoved(Wire):
    """How much is gone."""

    documents: int
    chunks: int

"""Build the pieces of a collection's document: pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from choir_common.wire.memory_collections import MAX_DOCUMENT_NAME
from choir_common.wire.model import JsonObject
from choir_memory.collections.chunking import split_document
from choir_memory.documents.model import TRUST, document_id
from choir_memory.knowledge.derived_store import DerivedDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionText:
    """A document before it is split."""

    collection: str
    name: str
    text: str
    digest: str
    identity: tuple[str, ...]
    """What the ids of the pieces are derived from."""
    happened_at: datetime
    is_from_web: bool = False
    """Whether its author is somebody whom nobody here knows: a page, a mail or a download."""
    headings: bool = True
    """Whether lines that begin with `#` are headings."""

    def pieces(self, position: int) -> Iterator[DerivedDocument]:
        """Yield the pieces; the first one gets `position` in the collection."""
        metadata: JsonObject = {
            "document": self.name,
            "digest": self.digest,
            "characters": len(self.text),
        }
        title = piece_title(self.name)
        for number, piece in enumerate(split_document(self.text, headings=self.headings)):
            yield DerivedDocument(
                document_id=document_id("collection", *self.identity, str(number)),
                kind="document_chunk",
                # document name and headings are part of the text, so that they are searched and embedded
                text=f"{' › '.join((title, *piece.headings))}\n{piece.text}",
                origin="web" if self.is_from_web else "operator",
                # trusted like a user, not like an operator: the operator who added it did not write it
                trust=TRUST["web" if self.is_from_web else "user"],
                happened_at=self.happened_at,
                collection=self.collection,
                chunk_index=position + number,
                metadata=metadata,
            )


def piece_title(name: str) -> str:
    """Return a document's name as its pieces begin with it: the end of a very long path."""
    return name[-MAX_DOCUMENT_NAME:]

"""Endpoints for documents that an operator added (`choir_common.clients.memory`).

Built by `app`; next is `layers.collections`. Only control calls these subjects, on behalf of an
operator.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_collections import (
    AddDocument,
    CollectionDocuments,
    DocumentAdded,
    DocumentsRemoved,
    ListCollections,
    RemoveDocuments,
)
from choir_memory.collections.service import CollectionService
from choir_memory.endpoints.retry import retry_unavailable


@dataclass(frozen=True, slots=True)
class CollectionEndpoints:
    """Endpoints for the requests that control sends on behalf of operators."""

    collections: CollectionService

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.add_to_collection(), AddDocument, self._add),
            Endpoint(subjects.list_collections(), ListCollections, self._list),
            Endpoint(subjects.remove_from_collection(), RemoveDocuments, self._remove),
        )

    async def _add(self, document: AddDocument) -> DocumentAdded:
        return await retry_unavailable(lambda: self.collections.add(document))

    async def _list(self, asked: ListCollections) -> CollectionDocuments:
        return await retry_unavailable(lambda: self.collections.listed(asked))

    async def _remove(self, asked: RemoveDocuments) -> DocumentsRemoved:
        # not retried: if the first attempt succeeded unnoticed, a second one would raise NotFound
        return await self.collections.remove(asked)

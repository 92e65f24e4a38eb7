"""Client for an agent's document collections over NATS; used by control's operator routes."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_collections import (
    AddDocument,
    CollectionDocuments,
    DocumentAdded,
    DocumentsRemoved,
    ListCollections,
    RemoveDocuments,
)

TIMEOUT_S = 30.0
"""Tokenizing 200,000 characters takes about a second on a busy machine."""


class CollectionsClient(Protocol):
    """Documents that operators added to an agent's memory."""

    async def add(self, document: AddDocument) -> DocumentAdded: ...

    async def listed(self, asked: ListCollections) -> CollectionDocuments: ...

    async def remove(self, asked: RemoveDocuments) -> DocumentsRemoved: ...


class NatsCollectionsClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def add(self, document: AddDocument) -> DocumentAdded:
        """Add a document to a collection; repeating it changes nothing."""
        return await self._bus.request(
            subjects.add_to_collection(), document, DocumentAdded, TIMEOUT_S
        )

    async def listed(self, asked: ListCollections) -> CollectionDocuments:
        """Return the added documents; raises NotFound if the agent has no memory."""
        return await self._bus.request(
            subjects.list_collections(), asked, CollectionDocuments, TIMEOUT_S
        )

    async def remove(self, asked: RemoveDocuments) -> DocumentsRemoved:
        """Erase a document or a collection; raises NotFound if there is none."""
        return await self._bus.request(
            subjects.remove_from_collection(), asked, DocumentsRemoved, TIMEOUT_S
        )

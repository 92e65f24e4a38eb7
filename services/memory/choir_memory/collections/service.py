"""Add documents to an agent's collections, and erase them.

Search finds the pieces as knowledge of kind `document_chunk`; the filter `collection` limits a search to one
collection.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.wire.memory_collections import (
    AddDocument,
    DocumentAdded,
    DocumentsRemoved,
    RemoveDocuments,
)
from choir_memory.audit.store import OPERATOR, AuditRecord, write_record
from choir_memory.collections.chunks import CollectionText
from choir_memory.collections.folders import FolderService
from choir_memory.collections.store import CollectionStore
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.knowledge.derived_store import (
    DerivedDocumentStore,
    prepare_derived,
)
from choir_memory.schema.store import SpaceRegistry, agent_transaction, resume_service_role


@dataclass(frozen=True, slots=True)
class CollectionService:
    """Collections of all agents; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    queue: EmbeddingQueue
    folders: FolderService

    async def add(self, request: AddDocument) -> DocumentAdded:
        """Add a document, or replace the one with its name; raises InvalidRequest for a blank text."""
        if not request.text.strip() or "\x00" in request.text:
            raise InvalidRequest(
                _("The text of a document must not be blank or contain NUL characters.")
            )
        await self.spaces.ensure(request.agent_id)
        if await self.folders.find(request.agent_id, request.collection) is not None:
            raise Conflict(
                _(
                    "The collection {collection} follows a folder: put the file there, or use another "
                    "collection."
                ).format(collection=request.collection)
            )
        digest = hashlib.sha256(request.text.encode()).hexdigest()
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = CollectionStore(connection, request.agent_id)
            await store.lock(request.collection)
            old_chunks = await store.list_chunks(request.collection, request.name)
            if old_chunks and {chunk.digest for chunk in old_chunks} == {digest}:
                return DocumentAdded(operation="unchanged", chunks=len(old_chunks))
            await erase_documents(
                connection, request.agent_id, [chunk.document_id for chunk in old_chunks]
            )
            position = await store.next_position(request.collection)
            document = CollectionText(
                collection=request.collection,
                name=request.name,
                text=request.text,
                digest=digest,
                identity=(request.collection, request.name),
                happened_at=datetime.now(UTC),
                is_from_web=request.is_from_web,
                headings=request.headings,
            )
            documents = await prepare_derived(list(document.pieces(position)))
            document_ids = await DerivedDocumentStore(connection, request.agent_id).put(documents)
            await resume_service_role(connection)
            await erase_references(
                connection, request.agent_id, [chunk.document_id for chunk in old_chunks]
            )
            await write_record(
                connection, AuditRecord(request.agent_id, OPERATOR, "add document", document_ids)
            )
            await enqueue_all(connection, request.agent_id, "knowledge", document_ids)
        self.queue.notify(len(document_ids))
        return DocumentAdded(
            operation="replaced" if old_chunks else "added", chunks=len(document_ids)
        )

    async def remove(self, request: RemoveDocuments) -> DocumentsRemoved:
        """Erase a document or a whole collection; raises NotFound when there is none."""
        await self.spaces.require(request.agent_id)
        folder = await self.folders.find(request.agent_id, request.collection)
        if folder is not None:
            if request.name is not None:
                raise Conflict(
                    _(
                        "The collection {collection} follows the folder {folder}: remove the file there."
                    ).format(collection=request.collection, folder=folder.path)
                )
            return await self.folders.remove(folder)
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = CollectionStore(connection, request.agent_id)
            await store.lock(request.collection)
            chunks = await store.list_chunks(request.collection, request.name)
            if not chunks:
                target = f"document {request.name} in collection" if request.name else "collection"
                raise NotFound(
                    _("There is no {target} {collection}.").format(
                        target=target, collection=request.collection
                    )
                )
            erased = await erase_documents(
                connection, request.agent_id, [chunk.document_id for chunk in chunks]
            )
            await resume_service_role(connection)
            await erase_references(connection, request.agent_id, erased.ids)
            await write_record(
                connection, AuditRecord(request.agent_id, OPERATOR, "remove documents", erased.ids)
            )
        documents = len({chunk.name for chunk in chunks})
        return DocumentsRemoved(documents=documents, chunks=len(chunks))

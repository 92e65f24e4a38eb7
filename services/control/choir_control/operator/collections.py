"""`/v1/agents/{agent_id}/collections`: documents that operators add to an agent's memory.

Forwards to the memory service. Texts pass the redactor first, like everything that memory stores.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from choir_common.clients.memory_collections import CollectionMemory
from choir_common.ids import NAME_PATTERN
from choir_common.redactor import Redactor
from choir_common.wire.memory_collections import (
    AddDocument,
    BringDocument,
    BroughtDocuments,
    DocumentAdded,
    DocumentsRemoved,
    ListCollections,
    RemoveDocuments,
)
from choir_control.configuration.current import Configuration
from choir_control.hosttools.memory import MemoryTools
from choir_control.operator.body_schema import body_of
from choir_control.rpc.body import read_body

PRINTABLE = r"^[^\x00-\x1f\x7f]+$"

AgentPath = Annotated[str, Path(pattern=NAME_PATTERN)]
Collection = Annotated[str, Path(min_length=1, max_length=100, pattern=PRINTABLE)]
CollectionQuery = Annotated[str | None, Query(min_length=1, max_length=100, pattern=PRINTABLE)]
Document = Annotated[str | None, Query(min_length=1, max_length=200, pattern=PRINTABLE)]


@dataclass(frozen=True, slots=True)
class CollectionRoom:
    """Dependencies of the collection routes."""

    configuration: Configuration
    tools: MemoryTools
    memory: CollectionMemory
    redactor: Redactor


def collection_routes(room: CollectionRoom) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/agents/{agent_id}/collections", tags=["memory"])

    @router.get("")
    async def list_documents(
        agent_id: AgentPath, collection: CollectionQuery = None
    ) -> BroughtDocuments:
        """List the documents in an agent's collections."""
        if agent_id in room.configuration.current.config.agents:
            await room.tools.ensure(agent_id)
        return await room.memory.listed(ListCollections(agent_id=agent_id, collection=collection))

    @router.post("/{collection}", openapi_extra=body_of(BringDocument))
    async def add_document(
        agent_id: AgentPath, collection: Collection, request: Request
    ) -> DocumentAdded:
        """Add a document to a collection; it replaces one of the same name."""
        room.configuration.current.agent(agent_id)
        brought = await read_body(request, BringDocument)
        await room.tools.ensure(agent_id)
        return await room.memory.add(
            AddDocument(
                agent_id=agent_id,
                collection=collection,
                name=room.redactor.clean(brought.name),
                text=room.redactor.clean(brought.text),
            )
        )

    @router.delete("/{collection}")
    async def remove_documents(
        agent_id: AgentPath, collection: Collection, document: Document = None
    ) -> DocumentsRemoved:
        """Erase a collection, or one of its documents, permanently."""
        asked = RemoveDocuments(agent_id=agent_id, collection=collection, name=document)
        return await room.memory.remove(asked)

    return router

"""`/v1/agents/{agent_id}/collections`: documents added to an agent's memory, and folders it follows.

Forwards to the memory service, which audits each request as the operator's. Names and texts of documents
pass the redactor first, as an agent's own writes do.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from choir_common.clients.memory import CollectionsClient, MemoryClient
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.redactor import Redactor
from choir_common.wire.memory_collections import (
    MAX_DOCUMENT_NAME,
    MAX_PATH,
    AddDocument,
    CollectionDocuments,
    Collections,
    DocumentAdded,
    DocumentsRemoved,
    FollowFolder,
    ListCollections,
    ListDocuments,
    NewDocument,
    NewFolder,
    RemoveDocuments,
)
from choir_control.api.operator.authentication import ConversationAccess
from choir_control.api.operator.collection_files import read_document_file
from choir_control.api.operator.memory import AgentPath, MemorySpaces

_FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
Collection = Annotated[str, Path(min_length=1, max_length=100, pattern=PRINTABLE)]
CollectionQuery = Annotated[str | None, Query(min_length=1, max_length=100, pattern=PRINTABLE)]
After = Annotated[str | None, Query(max_length=MAX_PATH, pattern=PRINTABLE)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
FileName = Annotated[str, Query(min_length=1, max_length=200, pattern=PRINTABLE)]
Document = Annotated[str | None, Query(min_length=1, max_length=200, pattern=PRINTABLE)]


def collection_routes(
    *,
    spaces: MemorySpaces,
    collections_client: CollectionsClient,
    memory_client: MemoryClient,
    redactor: Redactor,
) -> APIRouter:
    """Return the router of the collections in an agent's memory."""
    router = ServiceRouter(prefix="/agents/{agent_id}", tags=["memory"])
    router.include_router(_read_routes(spaces, collections_client, memory_client))
    router.include_router(_folder_routes(spaces, collections_client))
    router.include_router(_document_routes(spaces, collections_client, redactor))
    router.include_router(_file_routes(spaces, collections_client, redactor))
    return router


def _read_routes(
    spaces: MemorySpaces, collections_client: CollectionsClient, memory_client: MemoryClient
) -> APIRouter:
    # a path may not be empty where a router is included
    router = ServiceRouter(prefix="/collections")

    @router.get("")
    async def list_collections(
        agent_id: AgentPath, collection: CollectionQuery = None
    ) -> Collections:
        """List an agent's collections, with the progress of those that follow a folder."""
        await spaces.ensure(agent_id)
        return await memory_client.collections(
            ListCollections(agent_id=agent_id, collection=collection)
        )

    @router.get("/{collection}")
    async def list_documents(
        agent_id: AgentPath,
        collection: Collection,
        after: After = None,
        limit: Limit = 1_000,
        unreadable: bool = False,
    ) -> CollectionDocuments:
        """List the documents of a collection, page by page; `after` is the last name of a page."""
        await spaces.ensure(agent_id)
        listing = ListDocuments(
            agent_id=agent_id,
            collection=collection,
            after=after,
            limit=limit,
            unreadable=unreadable,
        )
        return await collections_client.documents(listing)

    return router


def _folder_routes(spaces: MemorySpaces, collections_client: CollectionsClient) -> APIRouter:
    router = ServiceRouter(prefix="/collections")

    @router.post("/{collection}/folder", openapi_extra=openapi_body(NewFolder))
    async def follow_folder(
        agent_id: AgentPath, collection: Collection, request: Request
    ) -> Collections:
        """Let a collection follow a folder that the memory service can read; repeated, scan it now."""
        spaces.require_configured(agent_id)
        followed = await parse_request_body(request, NewFolder)
        await spaces.ensure(agent_id)
        return await collections_client.follow(
            FollowFolder(agent_id=agent_id, collection=collection, folder=followed.folder)
        )

    return router


def _document_routes(
    spaces: MemorySpaces, collections_client: CollectionsClient, redactor: Redactor
) -> APIRouter:
    router = ServiceRouter(prefix="/collections")

    @router.post("/{collection}", openapi_extra=openapi_body(NewDocument))
    async def add_document(
        agent_id: AgentPath, collection: Collection, request: Request
    ) -> DocumentAdded:
        """Add a document to a collection; it replaces one of the same name."""
        spaces.require_configured(agent_id)
        document = await parse_request_body(request, NewDocument)
        await spaces.ensure(agent_id)
        return await collections_client.add(
            AddDocument(
                agent_id=agent_id,
                collection=collection,
                name=redactor.redact(document.name),
                text=redactor.redact(document.text),
            )
        )

    @router.delete("/{collection}")
    async def remove_documents(
        agent_id: AgentPath, collection: Collection, document: Document = None
    ) -> DocumentsRemoved:
        """Erase a collection, or one of its documents, permanently."""
        removal = RemoveDocuments(agent_id=agent_id, collection=collection, name=document)
        return await collections_client.remove(removal)

    return router


def _file_routes(
    spaces: MemorySpaces, collections_client: CollectionsClient, redactor: Redactor
) -> APIRouter:
    router = ServiceRouter(prefix="/collections")

    @router.put("/{collection}/files", openapi_extra=_FILE_BODY)
    async def upload_document(
        agent_id: AgentPath, collection: Collection, name: FileName, request: Request
    ) -> DocumentAdded:
        """Add a file's text as a document: the raw body, with the file's name in `?name=`.

        The memory service reads the text by the same limits as for followed folders. It replaces a document
        of the same name.
        """
        spaces.require_configured(agent_id)
        access: ConversationAccess = request.state.access
        with access.admit_transfer():
            await spaces.ensure(agent_id)
            file = await read_document_file(collections_client, name, request.stream())
            document = AddDocument(
                agent_id=agent_id,
                collection=collection,
                name=redactor.redact(name)[:MAX_DOCUMENT_NAME],
                # a long text, in which many values are looked for
                text=await asyncio.to_thread(redactor.redact, file.text or ""),
                headings=file.headings,
                is_from_web=file.is_from_web,
            )
            return await collections_client.add(document)

    return router

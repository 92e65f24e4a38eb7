"""Collections: documents that an agent finds by their content."""

from pathlib import Path

from choir_client import operations
from choir_client._async.connection import AsyncConnection
from choir_client.failures import parse_response
from choir_client.local_files import READ_TIMEOUT
from choir_common.wire.memory_collections import (
    MAX_DOCUMENT_NAME,
    CollectionDocument,
    CollectionView,
    DocumentAdded,
    DocumentsRemoved,
    NewFolder,
)

CollectionList = list[CollectionView]
DocumentList = list[CollectionDocument]
_PAGE = 1_000


class AsyncCollections:
    """The collections of one agent; every method raises NotFound if there is no such agent."""

    def __init__(self, connection: AsyncConnection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def list(self) -> CollectionList:
        """Return the collections, with the state of their folders."""
        names = {"agent_id": self._agent_id}
        return [*(await self._connection.call(operations.LIST_COLLECTIONS, names)).collections]

    async def add(self, collection: str, file: Path | str) -> DocumentAdded:
        """Add a file, which is read before this returns; a collection that does not exist is made."""
        path = Path(file)
        url = operations.ADD_DOCUMENT.url(self._names(collection))
        params = {"name": path.name[-MAX_DOCUMENT_NAME:]}
        answer = await self._connection.upload_file(url, path, params=params, timeout=READ_TIMEOUT)
        return parse_response(answer, DocumentAdded)

    async def follow(self, collection: str, folder: str) -> CollectionView:
        """Fill a collection from a folder of control's machine, and keep it so."""
        body = NewFolder(folder=folder)
        names = self._names(collection)
        answer = await self._connection.call(operations.FOLLOW_FOLDER, names, body=body)
        return answer.collections[0]

    async def documents(
        self, collection: str, *, unreadable: bool = False, limit: int = 1_000
    ) -> DocumentList:
        """Return the documents by name, or those that could not be read."""
        documents: DocumentList = []
        params = {"unreadable": str(unreadable).lower()}
        while len(documents) < limit:
            params["limit"] = str(min(_PAGE, limit - len(documents)))
            names = self._names(collection)
            page = await self._connection.call(operations.LIST_COLLECTION, names, params=params)
            documents += page.documents
            if not page.more:
                break
            params["after"] = page.documents[-1].name
        return documents

    async def remove(self, collection: str, document: str | None = None) -> DocumentsRemoved:
        """Erase a collection, or one document of it, permanently."""
        params = {} if document is None else {"document": document}
        names = self._names(collection)
        return await self._connection.call(operations.REMOVE_COLLECTION, names, params=params)

    def _names(self, collection: str) -> dict[str, str | int]:
        return {"agent_id": self._agent_id, "collection": collection}

"""Let collections follow folders, and remove them; the scans run in the background."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _, join
from choir_common.postgres.pool import Database
from choir_common.wire.memory_collections import (
    CollectionDocuments,
    Collections,
    CollectionView,
    DocumentsRemoved,
    FollowFolder,
    ListCollections,
    ListDocuments,
)
from choir_memory.collections.file_store import FolderFileStore
from choir_memory.collections.folder_store import FolderStore, FollowedFolder
from choir_memory.collections.folder_walk import ABSENT, EMPTY, check_folder
from choir_memory.collections.folder_watch import FolderWatcher
from choir_memory.collections.store import CollectionStore
from choir_memory.documents.collections_store import list_collection_names
from choir_memory.schema.store import SpaceRegistry, agent_transaction

OWN_FOLDER = "collections"
"""The folder below the state directory whose contents may be followed; the rest of it is private."""
COMPOSE_HINT = _(
    "With docker compose, only what is below CHOIR_COLLECTIONS can be read (.env.example)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderService:
    """Collections that follow a folder."""

    database: Database
    spaces: SpaceRegistry
    folders: FolderStore
    watcher: FolderWatcher
    home: Path
    """The state directory, which contains secrets."""

    async def find(self, agent_id: str, collection: str) -> FollowedFolder | None:
        """Return the folder that a collection follows."""
        return await self.folders.find(agent_id, collection)

    async def follow(self, request: FollowFolder) -> Collections:
        """Follow a folder, or scan it now; raises InvalidRequest for a folder that cannot be read."""
        path = await asyncio.to_thread(self._check_folder, request.folder)
        await self.spaces.ensure(request.agent_id)
        if await self.folders.find(request.agent_id, request.collection) is None:
            await self._require_empty(request)
        if not await self.folders.follow(request.agent_id, request.collection, path):
            folder = await self.folders.find(request.agent_id, request.collection)
            raise Conflict(
                _(
                    "The collection {collection} follows {folder}. Use another name, or remove that "
                    "collection first and wait until it is gone."
                ).format(
                    collection=request.collection,
                    folder=folder.path if folder else _("another folder"),
                )
            )
        self.watcher.wake()
        views = await self.folders.list_views(request.agent_id, request.collection)
        return Collections(collections=tuple(views))

    async def list_collections(self, request: ListCollections) -> Collections:
        """Return an agent's collections; raises NotFound when it has no memory."""
        await self.spaces.require(request.agent_id)
        views = await self.folders.list_views(request.agent_id, request.collection)
        followed = {view.name for view in views}
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = CollectionStore(connection, request.agent_id)
            names = [
                name
                for name in await list_collection_names(connection, request.agent_id)
                if name not in followed and request.collection in (None, name)
            ]
            views += await store.count_documents(names) if names else []
        return Collections(collections=tuple(sorted(views, key=_name)))

    async def list_documents(self, request: ListDocuments) -> CollectionDocuments:
        """Return a page of a collection's documents; raises NotFound when the agent has no memory."""
        await self.spaces.require(request.agent_id)
        folder = await self.folders.find(request.agent_id, request.collection)
        page = (request.after or "", request.limit + 1)
        if folder is not None:
            files = FolderFileStore(self.database, folder)
            documents = await files.list_documents(*page, unreadable=request.unreadable)
        elif request.unreadable:
            # a document that cannot be read is refused when it is added
            documents = []
        else:
            async with agent_transaction(self.database, request.agent_id) as connection:
                store = CollectionStore(connection, request.agent_id)
                documents = await store.list_documents(request.collection, *page)
        return CollectionDocuments(
            documents=tuple(documents[: request.limit]), more=len(documents) > request.limit
        )

    async def remove(self, folder: FollowedFolder) -> DocumentsRemoved:
        """Stop following a folder and have its documents erased in the background."""
        views = await self.folders.list_views(folder.agent_id, folder.collection)
        await self.folders.start_removal(folder)
        self.watcher.wake()
        documents, chunks = (views[0].documents, views[0].chunks) if views else (0, 0)
        return DocumentsRemoved(documents=documents, chunks=chunks)

    def _check_folder(self, folder: str) -> str:
        """Return the path of a folder without links; raises InvalidRequest if it cannot be followed."""
        path, home = Path(folder).resolve(), self.home.resolve()
        is_own = path.is_relative_to(home) or home.is_relative_to(path)
        if is_own and not path.is_relative_to(home / OWN_FOLDER):
            raise InvalidRequest(
                _(
                    "The folder {path} cannot be followed: Choir's state directory, with its secrets, is in "
                    "it or above it. Use {home} or a folder elsewhere."
                ).format(path=path, home=home / OWN_FOLDER)
            )
        problem = check_folder(str(path))
        if problem == EMPTY:
            raise InvalidRequest(
                _("The folder {folder} is empty. Put a file into it first.").format(folder=folder)
            )
        if problem:
            hint = join("", (" ", COMPOSE_HINT)) if problem == ABSENT else ""
            raise InvalidRequest(
                _("The folder {folder} cannot be followed. {problem}{hint}").format(
                    folder=folder, problem=problem, hint=hint
                )
            )
        return str(path)

    async def _require_empty(self, request: FollowFolder) -> None:
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = CollectionStore(connection, request.agent_id)
            if await store.count_documents([request.collection]):
                raise Conflict(
                    _(
                        "The collection {collection} has documents that were added one by one. Use "
                        "another name for the folder."
                    ).format(collection=request.collection)
                )


def _name(view: CollectionView) -> str:
    return view.name

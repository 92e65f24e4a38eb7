"""Store, rename and erase the documents of a folder's files, each together with the record of the file.

Documents and the records of their files change in one transaction, so that a scan that is killed resumes with
the files that are still waiting.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

from choir_common.postgres.pool import Connection, Database
from choir_memory.audit.store import OPERATOR, AuditRecord, write_record
from choir_memory.collections.chunks import CollectionText, piece_title
from choir_memory.collections.file_store import FileRecord, FolderFile, delete_files, record_files
from choir_memory.collections.folder_store import FollowedFolder
from choir_memory.collections.folder_walk import FileContent
from choir_memory.collections.store import CollectionStore
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.knowledge.derived_store import (
    DerivedDocument,
    DerivedDocumentStore,
    prepare_derived,
)
from choir_memory.schema.store import (
    agent_transaction,
    resume_service_role,
    take_agent_role,
)

BATCH = 200
"""Pieces that are tokenized and written at a time; a long document has thousands."""
NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file with its text."""

    file: FolderFile
    content: FileContent
    text: str
    headings: bool
    """Whether lines that begin with `#` are headings."""


@dataclass(frozen=True, slots=True)
class FolderFileWriter:
    """Writer of the documents of one folder."""

    database: Database
    queue: EmbeddingQueue
    folder: FollowedFolder

    async def store(self, files: Sequence[ReadFile]) -> None:
        """Store the texts of files as their documents, in place of the former ones: all or none."""
        added: list[UUID] = []
        async with agent_transaction(self.database, self.folder.agent_id) as connection:
            await self._erase_pieces(connection, [read.file for read in files])
            position = await CollectionStore(connection, self.folder.agent_id).next_position(
                self.folder.collection
            )
            records: list[tuple[UUID, FileRecord]] = []
            batches = _batches(self._split(files, position, records))
            while batch := await asyncio.to_thread(next, batches, None):
                added += await self._put(connection, batch)
            await resume_service_role(connection)
            await self._audit(connection, "add document", added)
            await record_files(connection, records)
        self.queue.notify(len(added))

    def _split(
        self, files: Sequence[ReadFile], position: int, records: list[tuple[UUID, FileRecord]]
    ) -> Iterator[DerivedDocument]:
        """Yield the pieces of documents, and add each file's record when its pieces are complete."""
        for read in files:
            document = CollectionText(
                collection=self.folder.collection,
                name=read.file.path,
                text=read.text,
                digest=read.content.digest,
                identity=(self.folder.collection, str(read.file.file_id), read.content.digest),
                happened_at=_changed_at(read.content),
                is_from_web=read.content.is_from_web,
                headings=read.headings,
            )
            chunks = 0
            for chunks, piece in enumerate(document.pieces(position), 1):  # noqa: B007 counts them
                yield piece
            records.append((read.file.file_id, _stored(read, position, chunks)))
            # with a gap, as in `CollectionStore.next_position`
            position += chunks + 1

    async def _put(self, connection: Connection, pieces: Sequence[DerivedDocument]) -> list[UUID]:
        documents = await prepare_derived(pieces)
        new_ids = await DerivedDocumentStore(connection, self.folder.agent_id).put(documents)
        await resume_service_role(connection)
        await enqueue_all(connection, self.folder.agent_id, "knowledge", new_ids, is_bulk=True)
        await take_agent_role(connection, self.folder.agent_id)
        return new_ids

    async def keep(self, file: FolderFile, content: FileContent) -> None:
        """Record that a file has the content that is stored already."""
        async with self.database.transaction() as connection:
            record = _unchanged(file, file.path, content)
            await record_files(connection, [(file.file_id, record)])

    async def refuse(self, file: FolderFile, content: FileContent | None, problem: str) -> None:
        """Record why a file has no document; its former one is erased."""
        async with agent_transaction(self.database, self.folder.agent_id) as connection:
            await self._erase_pieces(connection, [file])
            await resume_service_role(connection)
            record = FileRecord(
                path=file.path,
                state="unreadable",
                size=content.size if content else file.size,
                modified_ns=content.modified_ns if content else file.modified_ns,
                digest=content.digest if content else None,
                problem=problem,
            )
            await record_files(connection, [(file.file_id, record)])

    async def rename(self, former: FolderFile, file: FolderFile, content: FileContent) -> None:
        """Give the document of a missing file to `file`, which has the same content.

        Its pieces get the new name; their ids and vectors stay.
        """
        old_title, new_title = piece_title(former.path), piece_title(file.path)
        async with agent_transaction(self.database, self.folder.agent_id) as connection:
            await self._erase_pieces(connection, [file])
            store = CollectionStore(connection, self.folder.agent_id)
            last = former.first_chunk + former.chunks
            for first in range(former.first_chunk, last, BATCH):
                pieces = await store.list_range(
                    self.folder.collection, first, min(BATCH, last - first)
                )
                await store.rename_pieces(pieces, old_title, new_title, file.path)
            await resume_service_role(connection)
            await delete_files(connection, [file.file_id])
            record = _unchanged(former, file.path, content)
            await record_files(connection, [(former.file_id, record)])

    async def erase(self, files: Sequence[FolderFile]) -> None:
        """Erase the documents of files, and the records of the files."""
        async with agent_transaction(self.database, self.folder.agent_id) as connection:
            await self._erase_pieces(connection, files)
            await resume_service_role(connection)
            await delete_files(connection, [file.file_id for file in files])

    async def _erase_pieces(self, connection: Connection, files: Sequence[FolderFile]) -> None:
        """Erase the pieces of files; leaves the agent's role in effect."""
        store = CollectionStore(connection, self.folder.agent_id)
        await store.lock(self.folder.collection)
        ids: list[UUID] = []
        for file in files:
            if file.chunks:
                pieces = await store.list_range(
                    self.folder.collection, file.first_chunk, file.chunks
                )
                ids += [piece.document_id for piece in pieces]
        if ids:
            erased = await erase_documents(connection, self.folder.agent_id, ids)
            await resume_service_role(connection)
            await erase_references(connection, self.folder.agent_id, erased.ids)
            await self._audit(connection, "remove documents", erased.ids)
            await take_agent_role(connection, self.folder.agent_id)

    async def _audit(self, connection: Connection, operation: str, ids: Iterable[UUID]) -> None:
        record = AuditRecord(self.folder.agent_id, OPERATOR, operation, tuple(ids))
        await write_record(connection, record)


def _stored(read: ReadFile, position: int, chunks: int) -> FileRecord:
    return FileRecord(
        path=read.file.path,
        state="stored",
        size=read.content.size,
        modified_ns=read.content.modified_ns,
        digest=read.content.digest,
        first_chunk=position,
        chunks=chunks,
        characters=len(read.text),
    )


def _unchanged(file: FolderFile, path: str, content: FileContent) -> FileRecord:
    return FileRecord(
        path=path,
        state="stored",
        size=content.size,
        modified_ns=content.modified_ns,
        digest=content.digest,
        first_chunk=file.first_chunk,
        chunks=file.chunks,
        characters=None,
    )


def _changed_at(content: FileContent) -> datetime:
    if content.modified_ns <= 0:
        return datetime.now(UTC)
    return datetime.fromtimestamp(content.modified_ns / NS, UTC)


def _batches(pieces: Iterator[DerivedDocument]) -> Iterator[list[DerivedDocument]]:
    while batch := list(islice(pieces, BATCH)):
        yield batch

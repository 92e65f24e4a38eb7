"""The files of followed folders, in `choir_memory.folder_files`."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.memory_collections import CollectionDocument
from choir_files.formats import READER_VERSION
from choir_memory.collections.folder_store import FollowedFolder
from choir_memory.collections.folder_walk import ListedFile

# Unchanged files cost a lookup and no write: an ON CONFLICT would lock every row.
_NOTE = f"""
INSERT INTO choir_memory.folder_files AS f (agent_id, collection, path, size, modified_ns)
SELECT $1, $2, listed.path, listed.size, listed.modified_ns
FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS listed (path, size, modified_ns)
LEFT JOIN choir_memory.folder_files o
    ON o.agent_id = $1 AND o.collection = $2 AND o.path = listed.path COLLATE "C"
WHERE o.id IS NULL OR o.state = 'missing' OR o.reader < {READER_VERSION}
    OR (o.size, o.modified_ns) <> (listed.size, listed.modified_ns)
ON CONFLICT (agent_id, collection, path) DO UPDATE SET
    state = 'waiting', size = excluded.size, modified_ns = excluded.modified_ns
"""  # noqa: S608 a number of ours
_COLUMNS = "id, path, size, modified_ns, digest, first_chunk, chunks, reader"
_LIST_AFTER = f"""
SELECT {_COLUMNS} FROM choir_memory.folder_files
WHERE agent_id = $1 AND collection = $2 AND path > $3 COLLATE "C" AND state <> 'missing'
ORDER BY path LIMIT $4
"""  # noqa: S608 columns of ours
# The states are constants, so that every plan uses the small index over open files.
_LIST_WAITING = f"""
SELECT {_COLUMNS} FROM choir_memory.folder_files
WHERE agent_id = $1 AND collection = $2 AND state = 'waiting' ORDER BY path LIMIT $3
"""  # noqa: S608 columns of ours
_LIST_MISSING = _LIST_WAITING.replace("waiting", "missing")
_LIST_ANY = f"""
SELECT {_COLUMNS} FROM choir_memory.folder_files WHERE agent_id = $1 AND collection = $2 LIMIT $3
"""  # noqa: S608 columns of ours
_FIND_MISSING = f"""
SELECT {_COLUMNS} FROM choir_memory.folder_files
WHERE agent_id = $1 AND collection = $2 AND state = 'missing' AND digest = $3 AND chunks > 0
    AND reader = {READER_VERSION} LIMIT 1
"""  # noqa: S608 a number and columns of ours
_MARK_MISSING = "UPDATE choir_memory.folder_files SET state = 'missing' WHERE id = ANY($1::uuid[])"
_DELETE = "DELETE FROM choir_memory.folder_files WHERE id = ANY($1::uuid[])"
_RECORD = """
UPDATE choir_memory.folder_files SET path = $2, state = $3, size = $4, modified_ns = $5, digest = $6,
    problem = $7, first_chunk = $8, chunks = $9, characters = coalesce($10, characters), reader = $11,
    read_at = now()
WHERE id = $1
"""
_PAGE = """
SELECT path AS name, chunks, characters, read_at AS added_at, problem
FROM choir_memory.folder_files
WHERE agent_id = $1 AND collection = $2 AND path > $3 COLLATE "C" AND state <> 'missing'
    AND (problem <> '' OR NOT $5::boolean)
ORDER BY path LIMIT $4
"""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file of a folder as it was listed last; its document has `chunks` positions."""

    file_id: UUID
    path: str
    size: int
    modified_ns: int
    digest: str | None
    first_chunk: int
    chunks: int
    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """The result of reading a file."""

    path: str
    state: str
    size: int
    modified_ns: int
    digest: str | None
    problem: str = ""
    first_chunk: int = 0
    chunks: int = 0
    characters: int | None = 0
    """None: as before."""


class FolderFileStore:
    """Statements on the files of one folder, under the service's role."""

    def __init__(self, database: Database, folder: FollowedFolder) -> None:
        self._database = database
        self._key = (folder.agent_id, folder.collection)

    async def note_listed(self, files: Sequence[ListedFile]) -> None:
        """Mark new and changed files as waiting."""
        columns = [
            [getattr(file, name) for file in files] for name in ("path", "size", "modified_ns")
        ]
        await self._database.execute(_NOTE, *self._key, *columns)

    async def list_after(self, path: str, limit: int) -> list[FolderFile]:
        """Return the next files by path that are not missing."""
        return _files(await self._database.fetch(_LIST_AFTER, *self._key, path, limit))

    async def list_waiting(self, limit: int) -> list[FolderFile]:
        """Return files that have not been read as they are now."""
        return _files(await self._database.fetch(_LIST_WAITING, *self._key, limit))

    async def list_missing(self, limit: int) -> list[FolderFile]:
        """Return files that are no longer there."""
        return _files(await self._database.fetch(_LIST_MISSING, *self._key, limit))

    async def list_any(self, limit: int) -> list[FolderFile]:
        """Return any files of the folder."""
        return _files(await self._database.fetch(_LIST_ANY, *self._key, limit))

    async def find_missing(self, digest: str) -> FolderFile | None:
        """Return a missing file that had this content: probably the same file under its former name."""
        row = await self._database.fetchrow(_FIND_MISSING, *self._key, digest)
        return None if row is None else _file(row)

    async def mark_missing(self, files: Sequence[FolderFile]) -> None:
        """Mark files as no longer there."""
        if files:
            await self._database.execute(_MARK_MISSING, [file.file_id for file in files])

    async def list_documents(
        self, after: str, limit: int, *, unreadable: bool
    ) -> list[CollectionDocument]:
        """Return a page of the folder's files by path, or only of those that could not be read."""
        rows = await self._database.fetch(_PAGE, *self._key, after, limit, unreadable)
        return [CollectionDocument(**dict(row)) for row in rows]


async def record_files(connection: Connection, records: Sequence[tuple[UUID, FileRecord]]) -> None:
    """Store the results of reading files; requires the service's role."""
    rows = [
        (
            *(file_id, record.path, record.state, record.size, record.modified_ns, record.digest),
            *(record.problem, record.first_chunk, record.chunks, record.characters, READER_VERSION),
        )
        for file_id, record in records
    ]
    await connection.executemany(_RECORD, rows)


async def delete_files(connection: Connection, file_ids: Sequence[UUID]) -> None:
    """Delete the records of files; requires the service's role."""
    await connection.execute(_DELETE, list(file_ids))


def _files(rows: Sequence[Record]) -> list[FolderFile]:
    return [_file(row) for row in rows]


def _file(row: Record) -> FolderFile:
    return FolderFile(
        *(row["id"], row["path"], row["size"], row["modified_ns"], row["digest"]),
        *(row["first_chunk"], row["chunks"], row["reader"]),
    )

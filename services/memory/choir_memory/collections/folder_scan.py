"""Bring a collection in line with its folder: list what changed, read it, and erase what is gone.

The progress is in Postgres after every file. So a scan continues where it was interrupted, and a long one can
be divided into turns.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_memory.collections.file_store import FolderFile, FolderFileStore
from choir_memory.collections.file_writer import FolderFileWriter
from choir_memory.collections.folder_store import FolderStore, FollowedFolder
from choir_memory.collections.folder_walk import (
    FileContent,
    ListedFile,
    check_folder,
    is_missing,
    list_files,
    open_file,
)
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.file_text.formats import READER_VERSION, detect_format, has_headings
from choir_memory.file_text.reader import FileTextReader, UnreadableFile

log = structlog.get_logger("choir.memory.folders")

LISTED_AT_ONCE = 500
"""Files that are compared with the stored ones by one statement."""
READ_AT_ONCE = 50
TURN_S = 30.0
"""Seconds of reading files until the other folders have their turn."""
LISTING_SHARE = 20.0
"""A listing may take one part in so many of the time: a large folder is listed less often."""
MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderScanner:
    """Scanner of followed folders."""

    database: Database
    queue: EmbeddingQueue
    folders: FolderStore
    reader: FileTextReader
    interval_s: float
    """Seconds between scans of a folder."""
    max_file_mb: int

    async def run_turn(self, folder: FollowedFolder) -> None:
        """Do a part of the work on a folder: list it, or read its waiting files for up to `TURN_S`."""
        turn = _ScanTurn(
            scanner=self,
            folder=folder,
            files=FolderFileStore(self.database, folder),
            writer=FolderFileWriter(self.database, self.queue, folder),
        )
        match folder.state:
            case "removing":
                await turn.remove()
            case "reading":
                await turn.read()
            case _:
                await turn.list_changes()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScanTurn:
    """One turn of a folder's scan."""

    scanner: FolderScanner
    folder: FollowedFolder
    files: FolderFileStore
    writer: FolderFileWriter

    async def list_changes(self) -> None:
        """Mark new and changed files as waiting, and files that are gone as missing."""
        start = time.monotonic()
        root = self.folder.path
        folders, interval_s = self.scanner.folders, self.scanner.interval_s
        problem = await asyncio.to_thread(check_folder, root)
        if problem:
            await folders.set_state(self.folder, "unreachable", problem=problem, wait_s=interval_s)
            return
        await self._mark_missing(root)
        listing = list_files(root)
        while listed := await asyncio.to_thread(_take, listing):
            await self.files.note_listed(listed)
        wait_s = max(interval_s, LISTING_SHARE * (time.monotonic() - start))
        await folders.set_state(self.folder, "reading", wait_s=wait_s)

    async def _mark_missing(self, root: str) -> None:
        last = ""
        while records := await self.files.list_after(last, LISTED_AT_ONCE):
            last = records[-1].path
            missing = await asyncio.to_thread(_find_missing, root, records)
            await self.files.mark_missing(missing)

    async def read(self) -> None:
        """Read waiting files; when there is none left, erase the documents of missing ones."""
        end = time.monotonic() + TURN_S
        while waiting := await self.files.list_waiting(READ_AT_ONCE):
            for file in waiting:
                await self._read_file(file)
                if time.monotonic() > end:
                    return
        while missing := await self.files.list_missing(READ_AT_ONCE):
            await self.writer.erase(missing)
        await self.scanner.folders.finish_scan(self.folder)

    async def remove(self) -> None:
        """Erase the folder's documents and then the folder."""
        while some := await self.files.list_any(READ_AT_ONCE):
            await self.writer.erase(some)
        await self.scanner.folders.delete(self.folder)

    async def _read_file(self, file: FolderFile) -> None:
        try:
            content = await asyncio.to_thread(open_file, self.folder.path, file.path)
        except FileNotFoundError:
            await self.files.mark_missing([file])
            return
        except OSError as error:
            await self.writer.refuse(file, None, f"could not be opened: {error.strerror}")
            return
        try:
            await self._store_content(file, content)
        except UnreadableFile as error:
            await self.writer.refuse(file, content, str(error))
        except ChoirError:
            raise
        except Exception as error:  # otherwise one file would stop all others
            log.exception("a file could not be stored", collection=self.folder.collection)
            await self.writer.refuse(file, content, f"could not be stored ({type(error).__name__})")
        finally:
            os.close(content.descriptor)

    async def _store_content(self, file: FolderFile, content: FileContent) -> None:
        """Store what a file contains now; raises UnreadableFile."""
        if file.chunks and (file.digest, file.reader) == (content.digest, READER_VERSION):
            await self.writer.keep(file, content)
            return
        former = await self.files.find_missing(content.digest)
        if former is not None and detect_format(former.path) == detect_format(file.path):
            await self.writer.rename(former, file, content)
            return
        if content.size > self.scanner.max_file_mb * MB:
            raise UnreadableFile(f"is larger than {self.scanner.max_file_mb} MB")
        file_format = detect_format(file.path)
        if file_format is None:
            # the list of formats was longer in another release
            raise UnreadableFile("has a format that is not read")
        text = await asyncio.to_thread(self.scanner.reader.read, content.descriptor, file_format)
        await self.writer.store(file, content, text, headings=has_headings(file_format))


def _take(listing: Iterator[ListedFile]) -> list[ListedFile]:
    return list(islice(listing, LISTED_AT_ONCE))


def _find_missing(root: str, files: Sequence[FolderFile]) -> list[FolderFile]:
    return [file for file in files if is_missing(root, file.path)]

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
from pathlib import PurePath

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_files.errors import UnreadableFile
from choir_files.formats import READER_VERSION, detect_format, has_headings
from choir_files.reader import FileReader
from choir_memory.collections.file_store import FolderFile, FolderFileStore
from choir_memory.collections.file_writer import FolderFileWriter, ReadFile
from choir_memory.collections.folder_store import FolderStore, FollowedFolder
from choir_memory.collections.folder_walk import (
    MB,
    FileContent,
    ListedFile,
    check_folder,
    find_missing,
    list_files,
    open_file,
)
from choir_memory.collections.secret_files import is_secret_name, mask_private_keys
from choir_memory.embedding.queue import EmbeddingQueue

log = structlog.get_logger("choir.memory.folders")

LISTED_AT_ONCE = 500
"""Files that are compared with the stored ones by one statement."""
READ_AT_ONCE = 50
CHARACTERS_AT_ONCE = 500_000
"""Texts of small files are stored together until they have so many characters."""
TURN_S = 30.0
"""Seconds of reading files until the other folders have their turn."""
LISTING_SHARE = 20.0
"""A listing may take one part in so many of the time: a large folder is listed less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderScanner:
    """Scanner of followed folders."""

    database: Database
    queue: EmbeddingQueue
    folders: FolderStore
    reader: FileReader
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
            missing = await asyncio.to_thread(find_missing, root, [file.path for file in records])
            await self.files.mark_missing([file for file in records if file.path in missing])

    async def read(self) -> None:
        """Read waiting files; when there is none left, erase the documents of missing ones."""
        end = time.monotonic() + TURN_S
        while waiting := await self.files.list_waiting(READ_AT_ONCE):
            await self._read_files(waiting, end)
            if time.monotonic() > end:
                return
        while missing := await self.files.list_missing(READ_AT_ONCE):
            await self.writer.erase(missing)
            if time.monotonic() > end:
                return
        await self.scanner.folders.finish_scan(self.folder)

    async def _read_files(self, files: Sequence[FolderFile], end: float) -> None:
        """Read files until the turn is over; small ones are stored by one transaction."""
        texts: list[ReadFile] = []
        for file in files:
            read = await self._read_file(file)
            if read is not None:
                texts.append(read)
            is_over = time.monotonic() > end
            if is_over or sum(len(item.text) for item in texts) > CHARACTERS_AT_ONCE:
                await self._store(texts)
                texts = []
            if is_over:
                return
        await self._store(texts)

    async def _store(self, texts: Sequence[ReadFile]) -> None:
        if not texts:
            return
        try:
            await self.writer.store(texts)
        except ChoirError:
            raise
        except Exception as error:  # otherwise one file would stop all others
            if len(texts) > 1:
                for read in texts:
                    await self._store([read])
                return
            await self._refuse_failed(texts[0].file, texts[0].content, error)

    async def _refuse_failed(
        self, file: FolderFile, content: FileContent, error: Exception
    ) -> None:
        log.error("a file could not be stored", collection=self.folder.collection, exc_info=error)
        await self.writer.refuse(file, content, f"could not be stored ({type(error).__name__})")

    async def remove(self) -> None:
        """Erase the folder's documents and then the folder."""
        end = time.monotonic() + TURN_S
        while some := await self.files.list_any(READ_AT_ONCE):
            await self.writer.erase(some)
            if time.monotonic() > end:
                return
        await self.scanner.folders.delete(self.folder)

    async def _read_file(self, file: FolderFile) -> ReadFile | None:
        """Return a file that has to be stored; record the result for any other."""
        if is_secret_name(PurePath(file.path).name):
            await self.writer.refuse(
                file, None, "has the name of a file with keys, so it is not opened"
            )
            return None
        max_bytes = self.scanner.max_file_mb * MB
        try:
            content = await asyncio.to_thread(open_file, self.folder.path, file.path, max_bytes)
        except FileNotFoundError:
            await self.files.mark_missing([file])
            return None
        except UnreadableFile as error:
            await self.writer.refuse(file, None, str(error))
            return None
        except OSError as error:
            await self.writer.refuse(file, None, f"could not be opened: {error.strerror}")
            return None
        try:
            return await self._read_content(file, content)
        except UnreadableFile as error:
            await self.writer.refuse(file, content, str(error))
            return None
        except ChoirError:
            raise
        except Exception as error:  # otherwise one file would stop all others
            await self._refuse_failed(file, content, error)
            return None
        finally:
            os.close(content.descriptor)

    async def _read_content(self, file: FolderFile, content: FileContent) -> ReadFile | None:
        """Return what a file contains now, or None if that is stored already; raises UnreadableFile."""
        if file.chunks and (file.digest, file.reader) == (content.digest, READER_VERSION):
            await self.writer.keep(file, content)
            return None
        former = await self.files.find_missing(content.digest)
        # another suffix may mean another format or another trust
        if former is not None and _suffix(former.path) == _suffix(file.path):
            await self.writer.rename(former, file, content)
            return None
        file_format = detect_format(file.path)
        if file_format is None:
            # the list of formats was longer in another release
            raise UnreadableFile("has a format that is not read")
        text = await asyncio.to_thread(self.scanner.reader.read, content.descriptor, file_format)
        return ReadFile(file, content, mask_private_keys(text), has_headings(file_format))


def _take(listing: Iterator[ListedFile]) -> list[ListedFile]:
    return list(islice(listing, LISTED_AT_ONCE))


def _suffix(path: str) -> str:
    return PurePath(path).suffix.lower()

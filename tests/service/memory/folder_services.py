"""The services of collections over a `Room`, whose scans a test runs itself."""

from dataclasses import dataclass
from pathlib import Path

from choir_files.reader import FileReader
from choir_files.sandbox import ReadLimits
from choir_memory.collections.folder_scan import FolderScanner
from choir_memory.collections.folder_store import FolderStore
from choir_memory.collections.folder_watch import FolderWatcher
from choir_memory.collections.folders import FolderService
from choir_memory.collections.service import CollectionService
from tests.service.memory.conftest import Room


@dataclass(frozen=True, slots=True)
class FolderServices:
    """The parts that the memory service builds for collections."""

    store: FolderStore
    reader: FileReader
    scanner: FolderScanner
    folders: FolderService
    collections: CollectionService


def make_folder_services(room: Room, home: Path) -> FolderServices:
    """Build the parts; close the reader after use."""
    store = FolderStore(room.database)
    reader = FileReader(ReadLimits(memory_mb=512, cpu_s=10))
    scanner = FolderScanner(
        database=room.database,
        queue=room.queue,
        folders=store,
        reader=reader,
        interval_s=60.0,
        max_file_mb=1,
    )
    folders = FolderService(
        database=room.database,
        spaces=room.spaces,
        folders=store,
        watcher=FolderWatcher(room.database, store, scanner),
        home=home,
    )
    collections = CollectionService(room.database, room.spaces, room.queue, folders)
    return FolderServices(store, reader, scanner, folders, collections)

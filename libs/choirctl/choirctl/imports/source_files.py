"""Files of an export: a folder or a ZIP archive, read without following links or unpacking to disk.

Refused are archives with absolute paths, `..` or links, and files that unpack to more than their limit.
"""

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _

MAX_FILES = 100_000
MAX_TEXT_BYTES = 20_000_000
"""Limit of a file that is read as a whole."""
MAX_STREAM_BYTES = 4_000_000_000
MAX_RATIO = 200
"""A file in an archive that unpacks to more than this is no text but an attack; JSON stays below 50."""
RATIO_FROM = 10_000_000


class SourceFiles(Protocol):
    """The files of an export, by their path with `/`."""

    def names(self) -> list[str]:
        """Return the paths, sorted."""

    def modified_at(self, name: str) -> datetime | None:
        """Return when the file was changed."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file; raises OSError or BadZipFile while it is read."""


@contextmanager
def open_source(path: Path) -> Iterator[SourceFiles]:
    """Open a folder or an archive. Raises NotFound, or InvalidRequest for what is refused."""
    if path.is_dir():
        yield FolderFiles(path)
        return
    if not path.exists():
        raise NotFound(
            _("{path} does not exist; name the folder or the ZIP file of the export.").format(
                path=path
            )
        )
    try:
        with zipfile.ZipFile(path) as archive:
            yield ZipFiles(archive, str(path))
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidRequest(
            _("{path} is no folder and no readable ZIP file: {error}.").format(
                path=path, error=error
            )
        ) from error


def read_text(files: SourceFiles, name: str) -> str:
    """Return a text file. Raises InvalidRequest if it is too large or unreadable."""
    try:
        with files.open(name) as source:
            content = source.read(MAX_TEXT_BYTES + 1)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise InvalidRequest(
            _("{name} cannot be read: {error}.").format(name=name, error=error)
        ) from error
    if len(content) > MAX_TEXT_BYTES:
        raise InvalidRequest(
            _("{name} is larger than {max_text_bytes} MB.").format(
                name=name, max_text_bytes=MAX_TEXT_BYTES // 1000000
            )
        )
    return content.decode("utf-8-sig", errors="replace").replace("\x00", "")


class FolderFiles:
    """The regular files below a folder; links, also those in the middle of a path, are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        """Return the paths below the folder, sorted. Raises InvalidRequest for too many."""
        names: list[str] = []
        for folder, _folders, files in os.walk(self._root, followlinks=False):
            for file in files:
                path = Path(folder, file)
                if stat.S_ISREG(path.lstat().st_mode):
                    names.append(path.relative_to(self._root).as_posix())
            if len(names) > MAX_FILES:
                raise InvalidRequest(
                    _("{root} has more than {max_files:,} files.").format(
                        root=self._root, max_files=MAX_FILES
                    )
                )
        return sorted(names)

    def modified_at(self, name: str) -> datetime | None:
        """Return when the file was changed."""
        return datetime.fromtimestamp((self._root / name).lstat().st_mtime, UTC)

    def open(self, name: str) -> IO[bytes]:
        """Open a file without following a link in its place."""
        descriptor = os.open(self._root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        return os.fdopen(descriptor, "rb")


class ZipFiles:
    """The files of a ZIP archive. Raises InvalidRequest for one that tries tricks."""

    def __init__(self, archive: zipfile.ZipFile, path: str) -> None:
        entries = archive.infolist()
        if len(entries) > MAX_FILES:
            raise InvalidRequest(
                _("{path} has more than {max_files:,} files.").format(
                    path=path, max_files=MAX_FILES
                )
            )
        for entry in entries:
            _check_entry(entry, path)
        self._archive = archive
        self._entries = {entry.filename: entry for entry in entries if not entry.is_dir()}

    def names(self) -> list[str]:
        """Return the paths in the archive, sorted."""
        return sorted(self._entries)

    def modified_at(self, name: str) -> datetime | None:
        """Return the date of the entry; archives have no zone, and UTC is assumed."""
        try:
            return datetime(*self._entries[name].date_time, tzinfo=UTC)
        except ValueError:
            return None

    def open(self, name: str) -> IO[bytes]:
        """Open a file; zipfile reads no more than the size that was checked."""
        return self._archive.open(self._entries[name])


def _check_entry(entry: zipfile.ZipInfo, path: str) -> None:
    name = PurePosixPath(entry.filename.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or ":" in name.parts[:1]:
        raise InvalidRequest(
            _("{path} contains the path {filename!r}; nothing was read.").format(
                path=path, filename=entry.filename
            )
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise InvalidRequest(
            _("{path} contains the link {filename!r}; nothing was read.").format(
                path=path, filename=entry.filename
            )
        )
    ratio = entry.file_size / max(1, entry.compress_size)
    if entry.file_size > MAX_STREAM_BYTES or (entry.file_size > RATIO_FROM and ratio > MAX_RATIO):
        raise InvalidRequest(
            _("{path}: {filename!r} would unpack to {file_size:,} bytes; nothing was read.").format(
                path=path, filename=entry.filename, file_size=entry.file_size
            )
        )

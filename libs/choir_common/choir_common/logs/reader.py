"""Log reader that continues across rotations. Used by `choirctl logs`.

A log that is archived is renamed. The reader finishes the open file, then reads the files archived
meanwhile, then opens the new one.
"""

import contextlib
import gzip
import os
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, cast

POLL_S = 0.2


def read_lines(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield the lines of a log, or only the `newest`; nothing if there is no log.

    Raises OSError if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from file if newest is None else deque(file, newest)
    except FileNotFoundError:
        return


def follow_lines(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield the lines of `read_lines` and then every appended line, until cancelled.

    Raises OSError if it cannot be read.
    """
    archive, file = _begin(path)
    rest = b""
    try:
        if file is not None and newest is not None:
            yield from _last(file, newest)
        while True:
            moved = file is not None and _is_other(file, path)
            for chunk in file or ():
                rest += chunk
                if rest.endswith(b"\n"):
                    yield rest
                    rest = b""
            if moved and file is not None:
                # The rename was seen before the last read, so the old file is complete.
                file.close()
                archive.skip_oldest()
                file = None
            if file is None:
                yield from archive.read_new()
                file = _opened(path)
                if file is not None and archive.has_grown():
                    # Archived between the two steps: read it from the archive.
                    file.close()
                    file = None
                    continue
            if file is None or not moved:
                time.sleep(POLL_S)
    finally:
        if file is not None:
            file.close()


def _begin(path: Path) -> tuple["_Archive", BinaryIO | None]:
    """Return the archive and the open log file, in a state without a rotation in between."""
    while True:
        archive, file = _Archive(path), _opened(path)
        if not archive.has_grown():
            return archive, file
        if file is not None:
            file.close()


class _Archive:
    """Files archived since the start; several may be added between two polls."""

    def __init__(self, path: Path) -> None:
        self._directory = path.parent / "archive" / path.stem
        self._seen_names = set(self._names())

    def skip_oldest(self) -> None:
        """Mark the oldest new file as known: it was read while it was still the log."""
        self._seen_names |= set(self._new()[:1])

    def has_grown(self) -> bool:
        """Return whether there is a new file."""
        return bool(self._new())

    def read_new(self) -> Generator[bytes, None, None]:
        """Yield the lines of the new files and mark them as known."""
        for name in self._new():
            self._seen_names.add(name)
            with contextlib.suppress(FileNotFoundError), self._open(name) as file:
                yield from file

    def _open(self, name: str) -> BinaryIO:
        try:
            return (self._directory / name).open("rb")
        except FileNotFoundError:  # compressed meanwhile
            return cast(BinaryIO, gzip.open(self._directory / f"{name}.gz", "rb"))

    def _new(self) -> list[str]:
        return sorted(set(self._names()) - self._seen_names)

    def _names(self) -> Generator[str, None, None]:
        """Yield the names, which are times, without the suffix of compression."""
        for path in self._directory.glob("[!.]*.log*"):
            yield path.name.removesuffix(".gz")


def _last(file: BinaryIO, newest: int) -> list[bytes]:
    """Return the newest complete lines and leave the file position after them."""
    newest_lines: deque[bytes] = deque(maxlen=newest)
    end = 0
    for line in file:
        if line.endswith(b"\n"):
            newest_lines.append(line)
            end += len(line)
    file.seek(end)
    return list(newest_lines)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _is_other(file: BinaryIO, path: Path) -> bool:
    """Return whether `path` is now another file, or missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return True
    opened = os.fstat(file.fileno())
    return (status.st_dev, status.st_ino) != (opened.st_dev, opened.st_ino)

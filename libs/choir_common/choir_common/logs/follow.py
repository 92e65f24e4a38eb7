"""Read a log and go on with what is appended, whatever becomes of the file. Called by `choirctl logs`.

A log that is archived is renamed: what is open is read to its end, then what was put away meanwhile, then the
new one.
"""

import contextlib
import gzip
import os
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, cast

LOOK_S = 0.2


def snapshot(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield the lines of a log, the `newest` ones if given; none if there is no log.

    Raises OSError when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from file if newest is None else deque(file, newest)
    except FileNotFoundError:
        return


def follow(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield what `snapshot` does, and then every line that is added, for ever.

    Raises OSError when it cannot be read.
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
                # the move was seen before the last look, so nothing of the old file is missing
                file.close()
                archive.pass_over_one()
                file = None
            if file is None:
                yield from archive.unseen()
                file = _opened(path)
                if file is not None and archive.has_grown():
                    # put away between the two: it is read from there
                    file.close()
                    file = None
                    continue
            if file is None or not moved:
                time.sleep(LOOK_S)
    finally:
        if file is not None:
            file.close()


def _begin(path: Path) -> tuple["_Archive", BinaryIO | None]:
    """Return what was put away before the log that is open."""
    while True:
        archive, file = _Archive(path), _opened(path)
        if not archive.has_grown():
            return archive, file
        if file is not None:
            file.close()


class _Archive:
    """What was put away since the beginning: a log may be, more than once, between two looks."""

    def __init__(self, path: Path) -> None:
        self._directory = path.parent / "archive" / path.stem
        self._known = set(self._names())

    def pass_over_one(self) -> None:
        """Take the oldest new one for known: it was read while it was written."""
        self._known |= set(self._new()[:1])

    def has_grown(self) -> bool:
        """Tell whether there is a new one."""
        return bool(self._new())

    def unseen(self) -> Generator[bytes, None, None]:
        """Yield the lines of the new ones, which are known then."""
        for name in self._new():
            self._known.add(name)
            with contextlib.suppress(FileNotFoundError), self._open(name) as file:
                yield from file

    def _open(self, name: str) -> BinaryIO:
        try:
            return (self._directory / name).open("rb")
        except FileNotFoundError:  # it is compressed by now
            return cast(BinaryIO, gzip.open(self._directory / f"{name}.gz", "rb"))

    def _new(self) -> list[str]:
        return sorted(set(self._names()) - self._known)

    def _names(self) -> Generator[str, None, None]:
        """Yield the names, which are times, without what compression adds."""
        for found in self._directory.glob("[!.]*.log*"):
            yield found.name.removesuffix(".gz")


def _last(file: BinaryIO, newest: int) -> list[bytes]:
    """Return the newest whole lines; the file stands after them."""
    kept: deque[bytes] = deque(maxlen=newest)
    end = 0
    for line in file:
        if line.endswith(b"\n"):
            kept.append(line)
            end += len(line)
    file.seek(end)
    return list(kept)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _is_other(file: BinaryIO, path: Path) -> bool:
    """Tell whether another file, or none, stands at `path` by now."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return True
    opened = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (opened.st_dev, opened.st_ino)

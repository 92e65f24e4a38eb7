"""Append lines to one source's log, and move it to the archive (spec 22.2).

Called by `pump` and by control's runtimes. `logs/<source>.log` goes to `logs/archive/<source>/<time>.log` in
one rename, so that no line is lost or doubled; it is compressed afterwards, by a thread, and a rename again
makes the whole `.gz` appear at once. What a crash left uncompressed is compressed at the next opening.
"""

import contextlib
import datetime
import gzip
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

BLOCK = 1 << 20  # bytes read at a time when lines are counted
JOIN_S = 10.0


class LogFile:
    """One source's log; any thread may write to it."""

    def __init__(self, logs: Path, source: str, most_lines: Callable[[], int | None]) -> None:
        """Describe a log in the directory `logs`.

        `most_lines` is asked now and then; a file with more goes to the archive (None: never).
        """
        self.path = logs / f"{source}.log"
        self._archive = logs / "archive" / source
        self._most_lines = most_lines
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._lines = 0
        self._compressing: list[threading.Thread] = []

    def write(self, lines: bytes) -> None:
        """Append whole lines; a disk that takes none loses them, and nothing else.

        Blocks as long as the page cache takes: the lines of a log were never written otherwise.
        """
        with self._lock, contextlib.suppress(OSError):
            os.write(self._opened(), lines)
            self._lines += lines.count(b"\n")
            most = self._most_lines()
            if most is not None and self._lines >= most:
                self._put_away()

    def open(self) -> None:
        """Make the file at once, so that who follows it finds it. Raises OSError."""
        with self._lock:
            self._opened()

    def archive(self) -> None:
        """Move what was written to the archive; nothing happens to an empty log."""
        with self._lock, contextlib.suppress(OSError):
            if self.path.exists() and self.path.stat().st_size:
                self._put_away()

    def close(self) -> None:
        """Close the file and wait for what is being compressed."""
        with self._lock:
            self._release()
            busy, self._compressing = self._compressing, []
        for thread in busy:
            thread.join(JOIN_S)

    def _opened(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._lines = _count_lines(self.path)
            left = [path for path in self._archive.glob("*.log") if path.is_file()]
            if left:
                self._compress(left)
        return self._fd

    def _put_away(self) -> None:
        self._release()
        self._archive.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self._archive / f"{_stamp()}.log"
        self.path.rename(target)
        self._lines = 0
        self._compress([target])

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _compress(self, paths: list[Path]) -> None:
        self._compressing = [thread for thread in self._compressing if thread.is_alive()]
        thread = threading.Thread(target=_compress_all, args=(paths,), name="log archive")
        thread.start()
        self._compressing.append(thread)


def _compress_all(paths: list[Path]) -> None:
    for path in paths:
        # a full disk leaves the plain file, which is tried again at the next opening
        with contextlib.suppress(OSError):
            _compress(path)


def _compress(path: Path) -> None:
    partial = path.with_name(f".{path.name}.gz.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with (
        path.open("rb") as plain,
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile(path.name, "wb", 6, raw) as packed,
    ):
        shutil.copyfileobj(plain, packed, BLOCK)
    partial.replace(path.with_name(f"{path.name}.gz"))
    path.unlink()


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))


def _stamp() -> str:
    """Return a name that sorts by time and is not given twice."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")

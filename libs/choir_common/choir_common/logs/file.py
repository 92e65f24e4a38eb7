"""Log file of one source, with rotation into the archive.

Used by `pump` and by control's runtimes. `logs/<source>.log` is renamed to
`logs/archive/<source>/<time>.log`, so that no line is lost or duplicated. One thread compresses it
afterwards, and a second rename makes the complete `.gz` appear at once. Files that a crash left
uncompressed are compressed when the log is next opened.
"""

import contextlib
import datetime
import gzip
import os
import shutil
import threading
from pathlib import Path

from choir_common.logs.retention import LogLimits, LogLimitsSource, prune

BLOCK = 1 << 20  # bytes read at a time when counting lines
JOIN_TIMEOUT_S = 10.0


class LogFile:
    """The log of one source; any thread may write to it."""

    def __init__(self, logs: Path, source: str, limits: LogLimitsSource | None = None) -> None:
        """Describe a log in the directory `logs`; `limits` is read at every write."""
        self.path = logs / f"{source}.log"
        self._archive = logs / "archive" / source
        self._limits = limits or LogLimits()
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._lines = 0
        self._has_work = False
        self._archiver: threading.Thread | None = None

    def write(self, lines: bytes) -> None:
        """Append whole lines; write errors, such as a full disk, lose the lines and are ignored.

        Blocks for as long as a write to the page cache takes.
        """
        with self._lock, contextlib.suppress(OSError):
            os.write(self._open_file(), lines)
            self._lines += lines.count(b"\n")
            if self._lines >= self._limits.current().log_archive_threshold_lines:
                self._rotate()

    def open(self) -> None:
        """Create the file at once, so that a reader finds it. Raises OSError."""
        with self._lock:
            self._open_file()

    def archive(self) -> None:
        """Move the log to the archive; an empty log stays."""
        with self._lock, contextlib.suppress(OSError):
            if self.path.exists() and self.path.stat().st_size:
                self._rotate()

    def close(self) -> None:
        """Close the file and wait for the compression thread."""
        with self._lock:
            self._release()
            archiver = self._archiver
        if archiver is not None:
            archiver.join(JOIN_TIMEOUT_S)

    def _open_file(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._lines = _count_lines(self.path)
            self._start_compression()
        return self._fd

    def _rotate(self) -> None:
        self._release()
        self._archive.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.rename(self._archive / f"{_stamp()}.log")
        self._lines = 0
        self._start_compression()

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _start_compression(self) -> None:
        """Start to compress archived files and to delete expired ones."""
        self._has_work = True
        if self._archiver is None:
            # One thread at a time: two would write to the same file.
            self._archiver = threading.Thread(target=self._archive_files, name="log archive")
            self._archiver.start()

    def _archive_files(self) -> None:
        while True:
            with self._lock:
                if not self._has_work:
                    self._archiver = None
                    return
                self._has_work = False
                limits = self._limits.current()
            for path in sorted(self._archive.glob("*.log")):
                # A full disk leaves the uncompressed file; it is tried again at the next opening.
                with contextlib.suppress(OSError):
                    _compress(path)
            with contextlib.suppress(OSError):
                prune(self._archive.parent, limits)


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
    """Return a unique name that sorts by time."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")

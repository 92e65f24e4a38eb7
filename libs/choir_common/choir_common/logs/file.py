"""Append lines to one source's log, and move it to the archive (spec 22.2).

Called by `pump` and by control's runtimes. `logs/<source>.log` goes to `logs/archive/<source>/<time>.log` in
one rename, so that no line is lost or doubled; it is compressed afterwards, by one thread, and a rename again
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

from choir_common.logs.limits import LogLimits
from choir_common.logs.prune import prune

BLOCK = 1 << 20  # bytes read at a time when lines are counted
JOIN_S = 10.0


class LogFile:
    """One source's log; any thread may write to it."""

    def __init__(
        self, logs: Path, source: str, limits: Callable[[], LogLimits] = LogLimits
    ) -> None:
        """Describe a log in the directory `logs`; `limits` is asked at every write."""
        self.path = logs / f"{source}.log"
        self._archive = logs / "archive" / source
        self._limits = limits
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._lines = 0
        self._untidy = False
        self._tidying: threading.Thread | None = None

    def write(self, lines: bytes) -> None:
        """Append whole lines; a disk that takes none loses them, and nothing else.

        Blocks as long as the page cache takes: the lines of a log were never written otherwise.
        """
        with self._lock, contextlib.suppress(OSError):
            os.write(self._opened(), lines)
            self._lines += lines.count(b"\n")
            if self._lines >= self._limits().log_archive_threshold_lines:
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
            busy = self._tidying
        if busy is not None:
            busy.join(JOIN_S)

    def _opened(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._lines = _count_lines(self.path)
            self._tidy()
        return self._fd

    def _put_away(self) -> None:
        self._release()
        self._archive.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.rename(self._archive / f"{_stamp()}.log")
        self._lines = 0
        self._tidy()

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _tidy(self) -> None:
        """Have what was put away compressed, and what is not kept any longer deleted."""
        self._untidy = True
        if self._tidying is None:
            # one at a time: two would write to one file
            self._tidying = threading.Thread(target=self._tidy_up, name="log archive")
            self._tidying.start()

    def _tidy_up(self) -> None:
        while True:
            with self._lock:
                if not self._untidy:
                    self._tidying = None
                    return
                self._untidy = False
                limits = self._limits()
            for path in sorted(self._archive.glob("*.log")):
                # a full disk leaves the plain file, which is tried again at the next opening
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
    """Return a name that sorts by time and is not given twice."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")

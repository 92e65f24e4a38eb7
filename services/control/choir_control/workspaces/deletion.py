"""Deletion of everything in a directory. It blocks; call it in a thread.

The content was made by an agent and is not trusted: it may have symbolic links, paths longer than the limit,
and directories without permissions. So every step is relative to an open directory, links are never followed,
and trees are flattened from the top: subdirectories are moved up before their parent is removed. At most two
directories are open at a time.
"""

import errno
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_FAILURES_LISTED = 10
REPORT_EVERY = 1_000


class DeletionListener(Protocol):
    """Receiver of a deletion's progress."""

    def note_removed(self, count: int) -> None:
        """Note how many entries are deleted so far; called in the thread of the deletion."""


@dataclass(slots=True)
class DeletionResult:
    """Number of deleted entries, and the entries that could not be deleted, with the reason."""

    removed: int = 0
    failures: list[str] = field(default_factory=list)


def delete_contents(root: Path, listener: DeletionListener) -> DeletionResult:
    """Delete the contents of `root` but not `root` itself; report entries that cannot be deleted.

    `listener` is called after every thousandth entry, in this thread. Raises OSError when `root`
    cannot be opened as a directory.
    """
    top = os.open(root, DIRECTORY)
    try:
        return _Deletion(top, listener).run()
    finally:
        os.close(top)


class _Deletion:
    """One run over an open directory."""

    def __init__(self, top: int, listener: DeletionListener) -> None:
        self._top = top
        self._listener = listener
        self._device = os.fstat(top).st_dev
        # moved directories get a name that an agent cannot have prepared
        self._prefix = f".choir-{secrets.token_hex(8)}-"
        self._moved = 0
        self._stuck: set[str] = set()
        self._result = DeletionResult()

    def run(self) -> DeletionResult:
        while names := [name for name in _names(self._top) if name not in self._stuck]:
            for name in names:
                try:
                    self._remove(name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._stuck.add(name)
                    self._result.failures.append(f"{name}: {error.strerror}")
        del self._result.failures[MAX_FAILURES_LISTED:]
        return self._result

    def _remove(self, name: str) -> None:
        if not self._is_directory(self._top, name):
            os.unlink(name, dir_fd=self._top)
            self._count()
            return
        try:
            os.rmdir(name, dir_fd=self._top)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._take_apart(name)
            os.rmdir(name, dir_fd=self._top)
        self._count()

    def _take_apart(self, name: str) -> None:
        inner = self._open(name)
        try:
            for child in _names(inner):
                if self._is_directory(inner, child):
                    self._moved += 1
                    higher = f"{self._prefix}{self._moved}"
                    os.rename(child, higher, src_dir_fd=inner, dst_dir_fd=self._top)
                else:
                    os.unlink(child, dir_fd=inner)
                    self._count()
        finally:
            os.close(inner)

    def _count(self) -> None:
        self._result.removed += 1
        if self._result.removed % REPORT_EVERY == 0:
            self._listener.note_removed(self._result.removed)

    def _open(self, name: str) -> int:
        """Open a directory regardless of its permissions."""
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._top)
        try:
            # through the descriptor, so that nothing can replace the directory meanwhile
            Path(f"/proc/self/fd/{handle}").chmod(stat.S_IRWXU)
        finally:
            os.close(handle)
        return os.open(name, DIRECTORY, dir_fd=self._top)

    def _is_directory(self, where: int, name: str) -> bool:
        status = os.stat(name, dir_fd=where, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            return False
        if status.st_dev != self._device:
            raise OSError(errno.EXDEV, "another file system is mounted here")
        return True


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]

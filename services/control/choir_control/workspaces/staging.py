"""Writes and reads of files in an agent's staging area, and safe names for received files.

Functions block; call them in threads. The agent controls the area and may have placed symbolic links
or other files there. So every step is relative to an open directory, links are never followed, only
regular files are read, and a new file gets its name only when it is complete.
"""

import contextlib
import os
import re
import secrets
import stat
import threading
import unicodedata
from pathlib import Path
from typing import Literal

from choir_common.errors import Conflict
from choir_common.i18n import _

Folder = Literal["recv", "send"]
STAGING = ".choirtmp"
FOLDERS: tuple[Folder, ...] = ("recv", "send")

NAMES_TRIED = 1_000
# Agents cannot guess the random rest of such a name, so they cannot have placed a link there.
DRAFT = ".choir-"
# No file takes longer to write; an older draft was left by a choird that crashed.
DRAFT_KEPT_S = 3_600.0

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Nonblocking: opening a FIFO must not block before its type is known.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# In a container the agent runs as another user than control.
_FILE_MODE = 0o644
# An invalid descriptor, which the system refuses.
_NONE = -1
_DIRECTORY_MODE = 0o755
MOST_BYTES = 100
LONGEST_ENDING = 16
_UNSAFE = re.compile(r"[^\w.+-]+")
_DOTS = re.compile(r"\.{2,}")


class StagedFile:
    """A file that is being written; without `finish`, `close` removes it."""

    def __init__(self, root: Path, folder: Folder) -> None:
        """Create the draft; blocks. Raises Conflict when the staging area cannot be used."""
        self.size = 0
        # a cancelled task may close the draft while its thread still writes
        self._lock = threading.Lock()
        self._folder = folder
        self._draft = f"{DRAFT}{secrets.token_hex(8)}"
        try:
            self._directory = _open_directory(root, f"{STAGING}/{folder}", make=True)
            try:
                self._file = os.open(self._draft, _WRITE, _FILE_MODE, dir_fd=self._directory)
            except OSError:
                os.close(self._directory)
                raise
        except OSError as error:
            raise Conflict(
                _("{staging}/{folder} cannot be used: {error}.").format(
                    staging=STAGING, folder=folder, error=error.strerror
                )
            ) from error

    def write(self, piece: bytes) -> None:
        """Append to the file; blocks. Raises OSError, for example when the disk is full."""
        view = memoryview(piece)
        with self._lock:
            while view:
                view = view[os.write(self._file, view) :]
            self.size += len(piece)

    def finish(self, name: str, *, again: bool = False) -> str:
        """Give the file its name and return its path relative to the workspace; blocks.

        If the name is taken, a number is added. With `again`, the name belongs to this file alone and an
        earlier attempt's file is replaced. Raises OSError, and Conflict if no free name is found.
        """
        with self._lock:
            os.fchmod(self._file, _FILE_MODE)
            file_name = self._take_over(name) if again else self._take_free(name)
        return f"{STAGING}/{self._folder}/{file_name}"

    def close(self) -> None:
        """Close the file and remove the draft; blocks."""
        with self._lock:
            os.close(self._file)
            with contextlib.suppress(OSError):
                os.unlink(self._draft, dir_fd=self._directory)
            os.close(self._directory)
            self._file = self._directory = _NONE

    def _take_over(self, name: str) -> str:
        os.rename(self._draft, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        return name

    def _take_free(self, name: str) -> str:
        stem, dot, suffix = name.rpartition(".")
        stem, suffix = (stem, dot + suffix) if stem else (name, "")
        for number in range(1, NAMES_TRIED):
            free = name if number == 1 else f"{stem}-{number}{suffix}"
            with contextlib.suppress(FileExistsError):
                # a link, unlike a rename, never replaces an existing file
                os.link(
                    self._draft,
                    free,
                    src_dir_fd=self._directory,
                    dst_dir_fd=self._directory,
                    follow_symlinks=False,
                )
                return free
        raise Conflict(
            _("Too many files are called {name} in {staging}/{folder}.").format(
                name=name, staging=STAGING, folder=self._folder
            )
        )


def open_outgoing_file(root: Path, path: str) -> tuple[int, int]:
    """Open a regular file in `send/`; return its descriptor and its size.

    Raises OSError for any other file, and for paths that lead outside.
    """
    if not path.startswith(f"{STAGING}/send/"):
        raise PermissionError(f"{path} is not below {STAGING}/send")
    parent, name = os.path.split(path)
    directory = _open_directory(root, parent)
    try:
        file = os.open(name, _READ, dir_fd=directory)
    finally:
        os.close(directory)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise IsADirectoryError("it is not a regular file")
    return file, status.st_size


def remove_staged_file(root: Path, path: str) -> None:
    """Remove a file of the staging area, if it exists and is not a directory."""
    parent, name = os.path.split(path)
    try:
        directory = _open_directory(root, parent)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)


def remove_drafts(root: Path, now: float) -> int:
    """Remove the drafts of a choird that crashed; return their number."""
    count = 0
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            directory = _open_directory(root, f"{STAGING}/{folder}")
            try:
                count += _remove_drafts(directory, now)
            finally:
                os.close(directory)
    return count


def _remove_drafts(directory: int, now: float) -> int:
    with os.scandir(directory) as entries:
        old = [
            entry.name
            for entry in entries
            if entry.name.startswith(DRAFT)
            and now - entry.stat(follow_symlinks=False).st_mtime > DRAFT_KEPT_S
        ]
    for name in old:
        os.unlink(name, dir_fd=directory)
    return len(old)


def _open_directory(root: Path, path: str, *, make: bool = False) -> int:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\x00" in part for part in parts):
        raise PermissionError(f"{path!r} is not a path below the workspace")
    # the workspace itself may be a link, because an operator configured it
    descriptor = os.open(root.expanduser(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, _DIRECTORY_MODE, dir_fd=descriptor)
            child = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def safe_name(name: str) -> str:
    """Return a name of letters, digits, `.`, `_`, `+` and `-`: no path, not hidden, at most 100 bytes."""
    plain = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    plain = _DOTS.sub(".", _UNSAFE.sub("_", plain)).strip("._-")
    stem, dot, suffix = plain.rpartition(".")
    if not dot or len(suffix) > LONGEST_ENDING:
        stem, dot, suffix = plain, "", ""
    room = MOST_BYTES - len((dot + suffix).encode())
    return f"{stem.encode()[:room].decode(errors='ignore') or 'file'}{dot}{suffix}"

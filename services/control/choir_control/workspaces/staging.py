"""Lay files into an agent's staging area and take them out of it (spec 9.2, 19.5).

Called in threads by `inbox.fetch`, `hosttools.takeaway`, `spool` and `outgoing`.
The agent owns what is in there: links to anywhere, files in the way. So each step is taken relative to an
open directory, no link is ever followed, only plain files are read, and one has its name once it is whole.
"""

import contextlib
import os
import secrets
import stat
import threading
from pathlib import Path
from typing import Literal

from choir_common.errors import Conflict

Folder = Literal["recv", "send"]
STAGING = ".choirtmp"
FOLDERS: tuple[Folder, ...] = ("recv", "send")

NAMES_TRIED = 1_000
# agents cannot know the rest of such a name, so none has laid a link there
DRAFT = ".choir-"
# no file takes longer to be written: what is older was left by a choird that died
DRAFT_KEPT_S = 3_600.0

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# nonblocking: a fifo must not hang us before we see what it is
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# a container's agent is another user than we are
_FILE_MODE = 0o644
# no descriptor: the system refuses it
_NONE = -1
_DIRECTORY_MODE = 0o755


class Draft:
    """A file that is being written; leaving without `finish` leaves nothing behind."""

    def __init__(self, root: Path, folder: Folder) -> None:
        """Open it; blocks. Raises Conflict when the staging area cannot be used."""
        self.size = 0
        # who waits for a thread may be cancelled, and closes while it still writes
        self._turn = threading.Lock()
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
            raise Conflict(f"{STAGING}/{folder} cannot be used: {error.strerror}.") from error

    def write(self, piece: bytes) -> None:
        """Add to it; blocks. Raises OSError, as when the disk is full."""
        view = memoryview(piece)
        with self._turn:
            while view:
                view = view[os.write(self._file, view) :]
            self.size += len(piece)

    def finish(self, name: str, *, again: bool = False) -> str:
        """Give it a name, and return its path below the workspace; blocks.

        The name gets a number if something has it. If this is done `again`, the name is nobody else's, and
        the file takes the place of what an earlier time left. Raises OSError, Conflict without a free name.
        """
        with self._turn:
            os.fchmod(self._file, _FILE_MODE)
            given = self._take_over(name) if again else self._take_free(name)
        return f"{STAGING}/{self._folder}/{given}"

    def close(self) -> None:
        """Let go of it, finished or not; blocks."""
        with self._turn:
            os.close(self._file)
            with contextlib.suppress(OSError):
                os.unlink(self._draft, dir_fd=self._directory)
            os.close(self._directory)
            self._file = self._directory = _NONE

    def _take_over(self, name: str) -> str:
        os.rename(self._draft, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        return name

    def _take_free(self, name: str) -> str:
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (name, "")
        for number in range(1, NAMES_TRIED):
            free = name if number == 1 else f"{stem}-{number}{ending}"
            with contextlib.suppress(FileExistsError):
                # a link, unlike a renaming, never replaces what is there
                os.link(
                    self._draft,
                    free,
                    src_dir_fd=self._directory,
                    dst_dir_fd=self._directory,
                    follow_symlinks=False,
                )
                return free
        raise Conflict(f"Too many files are called {name} in {STAGING}/{self._folder}.")


def open_sent(root: Path, path: str) -> tuple[int, int]:
    """Open a plain file below `send/`; return its descriptor and its size.

    Raises OSError for anything else, or what leads out of there.
    """
    if not path.startswith(f"{STAGING}/send/"):
        raise PermissionError(f"{path} is not below {STAGING}/send")
    parent, name = os.path.split(path)
    directory = _open_directory(root, parent)
    try:
        opened = os.open(name, _READ, dir_fd=directory)
    finally:
        os.close(directory)
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):
        os.close(opened)
        raise IsADirectoryError("it is not a plain file")
    return opened, found.st_size


def remove(root: Path, path: str) -> None:
    """Remove a file of the staging area, if it is still there and no directory."""
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
    """Remove what a choird that died was writing; return how many files that were."""
    gone = 0
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            directory = _open_directory(root, f"{STAGING}/{folder}")
            try:
                gone += _remove_drafts(directory, now)
            finally:
                os.close(directory)
    return gone


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
        raise PermissionError(f"{path!r} is no path below the workspace")
    # the workspace itself may be a link: an operator named it
    here = os.open(root.expanduser(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, _DIRECTORY_MODE, dir_fd=here)
            deeper = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
    except OSError:
        os.close(here)
        raise
    return here

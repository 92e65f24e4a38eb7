"""Lay files into an agent's staging area and take them out of it (spec 19.5).

Called in threads by `inbox.fetch` and `spool`.
The agent may have put anything there, so each step is taken relative to an open directory and no link is ever
followed; a file is read only if it is a plain one.
"""

import contextlib
import os
import stat
from pathlib import Path

RECEIVE = ".choirtmp/recv"
SEND = ".choirtmp/send"

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# nonblocking: a fifo must not hang us before we see what it is
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# a container's agent is another user than we are
_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


class Incoming:
    """A file that is being written below `recv/`; it has its name once it is whole."""

    def __init__(self, root: Path, name: str) -> None:
        """Raises OSError when the place cannot be opened without following a link."""
        self.path = f"{RECEIVE}/{name}"
        self.size = 0
        self._name, self._draft = name, f".{name}.part"[-255:]
        self._directory = _open_directory(root, RECEIVE, make=True)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._draft, dir_fd=self._directory)
            self._file = os.open(self._draft, _WRITE, _FILE_MODE, dir_fd=self._directory)
        except OSError:
            os.close(self._directory)
            raise

    def write(self, piece: bytes) -> None:
        """Add bytes."""
        view = memoryview(piece)
        while view:
            view = view[os.write(self._file, view) :]
        self.size += len(piece)

    def finish(self) -> None:
        """Give the file its name."""
        os.fchmod(self._file, _FILE_MODE)
        os.rename(self._draft, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def close(self) -> None:
        """Let go; what is not finished is removed."""
        os.close(self._file)
        with contextlib.suppress(OSError):
            os.unlink(self._draft, dir_fd=self._directory)
        os.close(self._directory)


def open_sent(root: Path, path: str) -> tuple[int, int]:
    """Open a plain file below `send/`; return its descriptor and its size.

    Raises OSError for anything else, or what leads out of there.
    """
    if not path.startswith(f"{SEND}/"):
        raise PermissionError(f"{path} is not below {SEND}")
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

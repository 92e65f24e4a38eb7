"""Lay a new file into a workspace's staging area (spec 9.2). Called by `hosttools.takeaway`, in threads.

An agent owns what is in there: links to anywhere, files in the way. So every step is relative to an open
directory, no link is followed, nothing that exists is touched, and a file has its name only once it is whole.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

from choir_common.errors import Conflict

STAGING = ".choirtmp"
Folder = Literal["send", "recv"]
NAMES_TRIED = 1_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Draft:
    """A file that is being written; leaving without `finish` leaves nothing behind."""

    def __init__(self, root: Path, folder: Folder) -> None:
        """Open it; blocks. Raises Conflict when the staging area cannot be used."""
        self._folder = folder
        # nobody has prepared a link by this name
        self._partial = f".choir-{secrets.token_hex(8)}"
        try:
            self._directory = _open_staging(root.expanduser(), folder)
            self._file = os.open(self._partial, _NEW, 0o644, dir_fd=self._directory)
        except OSError as error:
            raise Conflict(f"{STAGING}/{folder} cannot be used: {error.strerror}.") from error

    def write(self, piece: bytes) -> None:
        """Add to it; blocks. Raises OSError, as when the disk is full."""
        while piece:
            piece = piece[os.write(self._file, piece) :]

    def finish(self, name: str) -> str:
        """Give it a name that nothing has yet; return its path below the workspace.

        Raises Conflict when a thousand files have the name already.
        """
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (name, "")
        for number in range(1, NAMES_TRIED):
            free = name if number == 1 else f"{stem}-{number}{ending}"
            with contextlib.suppress(FileExistsError):
                # a link, unlike a renaming, never replaces what is there
                os.link(
                    self._partial,
                    free,
                    src_dir_fd=self._directory,
                    dst_dir_fd=self._directory,
                    follow_symlinks=False,
                )
                return f"{STAGING}/{self._folder}/{free}"
        raise Conflict(f"Too many files are called {name} in {STAGING}/{self._folder}.")

    def close(self) -> None:
        """Let go of it, finished or not; blocks."""
        with contextlib.suppress(OSError):
            os.unlink(self._partial, dir_fd=self._directory)
        os.close(self._file)
        os.close(self._directory)


def _open_staging(root: Path, folder: Folder) -> int:
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in (STAGING, folder):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=directory)
            inner = os.open(part, _DIRECTORY, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory

"""Files of a watched folder: what is there, and what a file contains.

Others may write into the folder while it is read. So no link is followed, nothing but regular files is
opened, and every step is relative to a directory that is open already.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from choir_common.errors import NotFound, TooLarge
from choir_common.i18n import _

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
MAX_FILES = 10_000
MAX_DEPTH = 20
MAX_BYTES = 100_000_000
"""Larger files are left out: their content would have to be read for a digest."""
MAX_TEXT_BYTES = 4_000
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as a directory shows it."""

    path: str
    """In the folder, with `/`."""
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file contains."""

    state: FileState
    digest: str
    text: str
    """Its beginning, or empty if it is not UTF-8 text."""


def list_files(folder: str, patterns: Sequence[str]) -> list[FileState]:
    """Return the files that match a pattern. Raises NotFound, and TooLarge above `MAX_FILES` files."""
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(
            _("{folder} cannot be read: {strerror}.").format(folder=folder, strerror=error.strerror)
        ) from None
    try:
        files: list[FileState] = []
        for state in _walk(top, "", 0):
            files.append(state)
            if len(files) > MAX_FILES:
                raise TooLarge(
                    _("{folder} has more than {max_files} files.").format(
                        folder=folder, max_files=MAX_FILES
                    )
                )
        return [state for state in files if _matches(state.path, patterns)]
    finally:
        os.close(top)


def read_file(folder: str, path: str) -> FileContent | None:
    """Return what a file contains; None if it is gone, too large or no regular file."""
    try:
        handle = _open(folder, path)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            return None
        digest, size, head = hashlib.sha256(), 0, b""
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            head = head or chunk[:MAX_TEXT_BYTES]
            if size > MAX_BYTES:
                return None
    state = FileState(path, size, info.st_mtime_ns)
    return FileContent(state, f"sha256:{digest.hexdigest()}", _text_of(head))


def expand_home(folder: str) -> str:
    """Return a path with `~` replaced by the home directory."""
    return os.path.expanduser(folder)  # noqa: PTH111 - never raises


def printable_path(path: str) -> str:
    """Return a path that can be stored as text, whatever bytes a name has."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _walk(directory: int, prefix: str, depth: int) -> Iterator[FileState]:
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                try:
                    inner = os.open(entry.name, DIRECTORY, dir_fd=directory)
                except OSError:
                    continue
                try:
                    yield from _walk(inner, f"{prefix}{entry.name}/", depth + 1)
                finally:
                    os.close(inner)
            elif entry.is_file(follow_symlinks=False):
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                yield FileState(f"{prefix}{entry.name}", info.st_size, info.st_mtime_ns)


def _open(folder: str, path: str) -> int:
    *parents, name = path.split("/")
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parents:
            inner = os.open(part, DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(name, READ, dir_fd=directory)
    finally:
        os.close(directory)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns)


def _text_of(head: bytes) -> str:
    if b"\x00" in head:
        return ""
    # A character may be cut at the end.
    for end in range(len(head), max(len(head) - 4, -1), -1):
        try:
            return head[:end].decode()
        except UnicodeDecodeError:
            continue
    return ""

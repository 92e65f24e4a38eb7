"""List the files of a folder, and open them. Blocking; call it in a thread.

Hidden files and folders, links, and formats that are not read are left out.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_common.wire.memory_collections import MAX_PATH
from choir_memory.file_text.formats import detect_format

SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "venv", "target"))
"""Folders that contain copies or products of programs, besides the hidden ones."""
FRESH_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again within the resolution of its time."""
HASH_SIZE = 1 << 20
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as its folder lists it; `path` is relative to the followed folder."""

    path: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """An open file with its hash; `modified_ns` is -1 if it has to be hashed again next time."""

    descriptor: int
    size: int
    modified_ns: int
    digest: str


def check_folder(root: str) -> str:
    """Return why a folder cannot be scanned, or an empty text."""
    try:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
    except FileNotFoundError:
        return "It does not exist where the memory service runs."
    except NotADirectoryError:
        return "It is not a folder."
    except OSError as error:
        return f"The memory service cannot read it: {error.strerror}."
    # a disk that is not mounted looks like this
    return "It is empty. Its documents stay, in case its disk is not mounted." if empty else ""


def list_files(root: str) -> Iterator[ListedFile]:
    """Yield the files of a folder and the folders below it that can be read; never follows a link."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:  # noqa: PTH118 a million paths
                for entry in entries:
                    if entry.name.startswith(".") or not _is_storable(entry.name):
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED_FOLDERS and len(path) < MAX_PATH:
                            pending.append(path)
                    elif detect_format(entry.name) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        yield ListedFile(path, status.st_size, status.st_mtime_ns)
        except OSError:
            # what was read from it before stays, see `is_missing`
            continue


def is_missing(root: str, path: str) -> bool:
    """Return whether a file is certainly no longer there; False if that cannot be told."""
    try:
        return not stat.S_ISREG(os.lstat(f"{root}/{path}").st_mode)
    except OSError as error:
        return error.errno in _GONE


def open_file(root: str, path: str) -> FileContent:
    """Open and hash a regular file below the folder; the caller closes it. Raises OSError."""
    full = Path(root, path)
    # a folder above it may have been replaced by a link since it was listed
    if Path(os.path.realpath(full.parent)) != Path(os.path.realpath(root), path).parent:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        digest = hashlib.sha256()
        while part := os.read(descriptor, HASH_SIZE):
            digest.update(part)
        fresh = status.st_mtime_ns > time.time_ns() - FRESH_NS
        modified_ns = -1 if fresh else status.st_mtime_ns
        return FileContent(descriptor, status.st_size, modified_ns, digest.hexdigest())
    except BaseException:
        os.close(descriptor)
        raise


def _is_storable(name: str) -> bool:
    """Return whether a name is UTF-8 without control characters."""
    return name.isprintable() or all(
        char >= " " and not "\x7f" <= char <= "\x9f" and not "\ud800" <= char <= "\udfff"
        for char in name
    )

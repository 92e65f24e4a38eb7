"""List the files of a folder, and open them. Blocking; call it in a thread.

Hidden files and folders, links, and formats that are not read are left out. Files whose name says that they
contain keys are listed, so that people see that they are not read, but never opened.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from choir_common.i18n import _
from choir_common.wire.memory_collections import MAX_PATH
from choir_files.errors import UnreadableFile
from choir_files.formats import detect_format
from choir_memory.collections.secret_files import is_secret_name

SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "venv", "target"))
"""Folders that contain copies or products of programs, besides the hidden ones."""
FRESH_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again within the resolution of its time."""
HASH_SIZE = 1 << 20
MB = 1024 * 1024
ABSENT = _("It does not exist where the memory service runs.")
# a disk that is not mounted looks like this
EMPTY = _("It is empty. Its documents stay, in case its disk is not mounted.")
WEB_SUFFIXES = frozenset((".html", ".htm", ".xhtml", ".eml"))
WEB_ATTRIBUTES = frozenset(("user.xdg.origin.url", "user.xdg.referrer.url"))
"""Extended attributes with which browsers and download programs note where a file comes from."""
_FOLDER_FLAGS = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
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
    is_from_web: bool


def check_folder(root: str) -> str:
    """Return why a folder cannot be scanned, or an empty text."""
    if os.path.realpath(root) != root:
        return _("A link has taken its place. Remove the collection, and add the folder again.")
    try:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
    except FileNotFoundError:
        return ABSENT
    except NotADirectoryError:
        return _("It is not a folder.")
    except OSError as error:
        return _("The memory service cannot read it: {error}.").format(error=error.strerror)
    return EMPTY if empty else ""


def list_files(root: str) -> Iterator[ListedFile]:
    """Yield the files of a folder and the folders below it that can be read; never follows a link."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:  # noqa: PTH118 a million paths
                for entry in entries:
                    is_secret = is_secret_name(entry.name)
                    is_hidden = entry.name.startswith(".") and not is_secret
                    if is_hidden or not _is_storable(entry.name):
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if _is_visited(entry.name) and len(path) < MAX_PATH:
                            pending.append(path)
                    elif (is_secret or detect_format(entry.name)) and entry.is_file(
                        follow_symlinks=False
                    ):
                        status = entry.stat(follow_symlinks=False)
                        yield ListedFile(path, status.st_size, status.st_mtime_ns)
        except OSError:
            # what was read from it before stays, see `find_missing`
            continue


def find_missing(root: str, paths: Iterable[str]) -> set[str]:
    """Return the files that are certainly no longer there; one that cannot be told is not among them."""
    in_folder: dict[str, list[str]] = {}
    for path in paths:
        in_folder.setdefault(path.rpartition("/")[0], []).append(path)
    missing: set[str] = set()
    for folder, files in in_folder.items():
        is_replaced = _is_replaced(root, folder)
        missing.update(path for path in files if is_replaced or _is_gone(f"{root}/{path}"))
    return missing


def _is_replaced(root: str, folder: str) -> bool:
    # by a link, which is not followed
    path = f"{root}/{folder}".rstrip("/")
    return os.path.realpath(path) != path


def _is_gone(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError as error:
        return error.errno in _GONE


def open_file(root: str, path: str, max_bytes: int) -> FileContent:
    """Open and hash a regular file below the folder; the caller closes it.

    Raises OSError, and UnreadableFile if it has more than `max_bytes`.
    """
    descriptor = _open_below(root, path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _("not a regular file"))
        digest = hashlib.sha256()
        size = 0
        # not more than it had when it was opened: it may be growing
        while size <= min(max_bytes, status.st_size) and (part := os.read(descriptor, HASH_SIZE)):
            digest.update(part)
            size += len(part)
        if size > max_bytes:
            raise UnreadableFile(
                _("is larger than {max_bytes} MB").format(max_bytes=max_bytes // MB)
            )
        fresh = status.st_mtime_ns > time.time_ns() - FRESH_NS
        modified_ns = -1 if fresh else status.st_mtime_ns
        return FileContent(
            descriptor=descriptor,
            size=status.st_size,
            modified_ns=modified_ns,
            digest=digest.hexdigest(),
            is_from_web=_is_from_web(path, descriptor),
        )
    except BaseException:
        os.close(descriptor)
        raise


def _open_below(root: str, path: str) -> int:
    """Open a file by its folders one after the other: no link is followed, also if one appears meanwhile."""
    folder = os.open("/", _FOLDER_FLAGS)
    *folders, name = Path(root, path).parts[1:]
    try:
        for part in folders:
            below = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)


def _is_from_web(path: str, descriptor: int) -> bool:
    """Return whether a file is a page or a mail, or was marked by the browser that downloaded it."""
    if PurePath(path).suffix.lower() in WEB_SUFFIXES:
        return True
    try:
        return not WEB_ATTRIBUTES.isdisjoint(os.listxattr(descriptor))
    except (OSError, AttributeError):
        # the file system has no attributes, or this system no such call
        return False


def _is_visited(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED_FOLDERS


def _is_storable(name: str) -> bool:
    """Return whether a name is UTF-8 without control characters."""
    return name.isprintable() or all(
        char >= " " and not "\x7f" <= char <= "\x9f" and not "\ud800" <= char <= "\udfff"
        for char in name
    )

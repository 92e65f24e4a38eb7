"""The files of a backup: everything below the state directory that another machine needs, and workspaces.

Agents write into their workspaces meanwhile. So every file is opened relative to its directory and without
following links: an agent cannot exchange a directory for a link and have files of the host read.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from choir_common.i18n import _
from choir_local.backup.archive import MAX_NAME, BackupWriter
from choir_local.backup.manifest import HOME_PREFIX, OUTSIDE_PREFIX, SHOWN_SKIPPED
from choir_local.config_values import read_config
from choir_local.home import Home

SECRETS = ("secrets.json", "audit-keys.json", "tls")
BACKUPS = "backups"
UPGRADES = "upgrade"
LEFT_OUT = frozenset(
    # the database is in the dump, the bus has no data of its own, and the rest is of running processes
    {
        "data/postgres",
        "data/nats",
        "run",
        "socks",
        "logs",
        "spool",
        ".secrets.lock",
        ".restoring",
        BACKUPS,
        UPGRADES,
    }
)
SPARSE_BYTES = 1 << 30
"""A file with a gigabyte more than it takes on the disk is left out: an agent could fill the disk with it."""
DISK_BLOCK = 512


@dataclass(frozen=True, slots=True)
class BackupScope:
    """What a backup includes besides the database."""

    secrets: bool = True
    workspaces: bool = True


@dataclass(slots=True)
class HomeFiles:
    """The walk over the files of one home. `skipped` has those that could not be read, with the reason."""

    home: Home
    scope: BackupScope
    writer: BackupWriter
    skipped: list[str] = field(default_factory=list)
    skipped_count: int = 0

    def add_all(self) -> Iterator[int]:
        """Add every file; yield the number of bytes after each directory."""
        added = 0
        left_out = set(LEFT_OUT)
        if not self.scope.secrets:
            left_out.update(SECRETS)
        if not self.scope.workspaces:
            left_out.add("workspaces")
        for size in self._add_tree(self.home.root, HOME_PREFIX, left_out):
            added += size
            yield added
        for name, path in self._outside_workspaces():
            for size in self._add_tree(path, f"{OUTSIDE_PREFIX}{name}/", set()):
                added += size
                yield added

    def _outside_workspaces(self) -> list[tuple[str, Path]]:
        config = read_config(self.home.config_file) if self.scope.workspaces else None
        paths = {name: Path(it.path) for name, it in config.workspaces.items()} if config else {}
        root = self.home.root.resolve()
        return [
            (name, path) for name, path in paths.items() if not path.resolve().is_relative_to(root)
        ]

    def _add_tree(self, root: Path, prefix: str, left_out: set[str]) -> Iterator[int]:
        walk = os.fwalk(root, follow_symlinks=False, onerror=self._skip_error)
        for directory, folders, files, descriptor in walk:
            inside = Path(directory).relative_to(root)
            place = "" if inside == Path() else f"{inside.as_posix()}/"
            folders[:] = [name for name in folders if place + name not in left_out]
            if place:
                self._add_folder(prefix + place.rstrip("/"), descriptor)
            size = 0
            # fwalk lists links to directories with the directories
            for name in [*files, *folders]:
                if place + name not in left_out:
                    size += self._add(prefix + place + name, name, descriptor)
            yield size

    def _add_folder(self, path: str, descriptor: int) -> None:
        if self._is_storable(path):
            self.writer.add_directory(path, os.fstat(descriptor).st_mode)

    def _add(self, path: str, name: str, descriptor: int) -> int:
        """Add a file or link of the open directory; return its size."""
        if not self._is_storable(path):
            return 0
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                self.writer.add_link(path, os.readlink(name, dir_fd=descriptor))
            elif stat.S_ISREG(status.st_mode):
                return self._add_file(path, name, descriptor)
            elif not stat.S_ISDIR(status.st_mode):
                self._skip(path, _("not a file"))
        except FileNotFoundError:
            pass  # deleted meanwhile
        except OSError as error:
            # a full disk is not about this file
            if error.filename is None:
                raise
            self._skip(path, str(error.strerror))
        return 0

    def _add_file(self, path: str, name: str, descriptor: int) -> int:
        # it may have become a pipe or a link by now
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.closing(os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb")) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return 0
            if status.st_size - status.st_blocks * DISK_BLOCK > SPARSE_BYTES:
                self._skip(path, _("sparse file"))
                return 0
            self.writer.add_file(path, file)
            return status.st_size

    def _is_storable(self, path: str) -> bool:
        try:
            encoded = path.encode()
        except UnicodeEncodeError:
            self._skip(ascii(path), _("its name is not UTF-8"))
            return False
        if len(encoded) > MAX_NAME:
            self._skip(path[:200], _("its path is too long"))
            return False
        return True

    def _skip_error(self, error: OSError) -> None:
        self._skip(str(error.filename), str(error.strerror))

    def _skip(self, path: str, why: str) -> None:
        self.skipped_count += 1
        if len(self.skipped) < SHOWN_SKIPPED:
            self.skipped.append(f"{path}: {why}")

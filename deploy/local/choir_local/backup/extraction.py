"""Extraction of a backup into a new directory. Nothing outside of it is read or written.

Links are created last, so no file can be written through one.
"""

import os
import posixpath
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_local.backup.archive import BROKEN, BackupEntry
from choir_local.backup.manifest import DUMP_PREFIX, HOME_PREFIX, OUTSIDE_PREFIX, BackupHead
from choir_local.backup.sources import LEFT_OUT, SECRETS

WORKSPACES = "workspaces"
OUTSIDE_FOLDER = "restored-workspaces"
WORKSPACE_PARTS = 2  # `workspaces/NAME`: below it, links are the agent's own


@dataclass(slots=True)
class BackupFileWriter:
    """The files of one backup, written below `root`; the dump is put together in `dump`."""

    root: Path
    dump: Path
    outside: set[str] = field(default_factory=set)
    """Names of the workspaces that were outside the state directory."""
    _pieces: int = 0
    _links: dict[str, str] = field(default_factory=dict)

    def take(self, head: BackupHead, entry: BackupEntry) -> None:
        """Write one entry. Raises InvalidRequest for one that no backup has."""
        name = entry.name
        if name.startswith(DUMP_PREFIX):
            self._append_dump(entry)
        elif name.startswith(HOME_PREFIX):
            self._write(name.removeprefix(HOME_PREFIX), entry)
        elif name.startswith(OUTSIDE_PREFIX):
            inside = name.removeprefix(OUTSIDE_PREFIX)
            self.outside.add(inside.split("/", 1)[0])
            self._write(f"{outside_folder(head)}/{inside}", entry)
        else:
            raise InvalidRequest(
                _("{broken}: it contains the unexpected file {name!r}.").format(
                    broken=BROKEN, name=name
                )
            )

    def create_links(self) -> None:
        """Create the symbolic links; call it once, after the whole backup was verified."""
        for path, target in self._links.items():
            parents = PurePosixPath(path).parents
            if any(str(parent) in self._links for parent in parents):
                raise InvalidRequest(
                    _("{broken}: {path!r} is below a link.").format(broken=BROKEN, path=path)
                )
            try:
                (self.root / path).symlink_to(target)
            except FileExistsError:
                raise InvalidRequest(
                    _("{broken}: it contains {path!r} twice.").format(broken=BROKEN, path=path)
                ) from None

    def _append_dump(self, entry: BackupEntry) -> None:
        if entry.kind != "file" or entry.name != f"{DUMP_PREFIX}{self._pieces:06}":
            raise InvalidRequest(
                _("{broken}: {name!r} is not the next piece of the database.").format(
                    broken=BROKEN, name=entry.name
                )
            )
        self._pieces += 1
        descriptor = os.open(self.dump, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for block in entry.blocks:
                file.write(block)

    def _write(self, path: str, entry: BackupEntry) -> None:
        pure = PurePosixPath(path)
        if not {path, *map(str, pure.parents)}.isdisjoint(LEFT_OUT):
            raise InvalidRequest(
                _("{broken}: it contains the unexpected file {path!r}.").format(
                    broken=BROKEN, path=path
                )
            )
        target = self.root / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        match entry.kind:
            case "directory":
                target.mkdir(mode=0o700, exist_ok=True)
                # a directory without write permission would refuse its own files
                target.chmod(entry.mode | 0o700)
            case "link":
                _check_link(path, entry.target)
                self._links[path] = entry.target
            case _:
                is_secret = pure.parts[0] in SECRETS
                self._write_file(target, 0o600 if is_secret else entry.mode, entry)

    def _write_file(self, target: Path, mode: int, entry: BackupEntry) -> None:
        try:
            descriptor = os.open(
                target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InvalidRequest(
                _("{broken}: it contains {name!r} twice.").format(broken=BROKEN, name=entry.name)
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            for block in entry.blocks:
                file.write(block)
            os.fchmod(file.fileno(), mode)


def outside_folder(head: BackupHead) -> str:
    """Return where workspaces from outside the state directory are put, in the new one."""
    return f"{OUTSIDE_FOLDER}/{head.made_at:%Y%m%dT%H%M%SZ}"


def _check_link(path: str, target: str) -> None:
    """Reject a link that could lead Choir itself out of its state directory."""
    parts = PurePosixPath(path).parts
    if parts[0] in (WORKSPACES, OUTSIDE_FOLDER) and len(parts) > WORKSPACE_PARTS:
        return
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or leads_to == ".." or leads_to.startswith("../"):
        raise InvalidRequest(
            _("{broken}: the link {path!r} leads out of the state directory.").format(
                broken=BROKEN, path=path
            )
        )

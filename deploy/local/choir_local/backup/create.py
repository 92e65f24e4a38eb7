"""Writing of a whole-home backup, while Choir runs or is stopped (`choirctl backup create`).

The dump comes first, from one snapshot of the database. The files come after it: a file that a row of the
database refers to was written before the row.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from choir_common.errors import Conflict, NotFound, StartupError
from choir_common.i18n import _
from choir_local.backup.age import AgeWriter, CleartextWriter
from choir_local.backup.archive import BackupWriter
from choir_local.backup.manifest import DUMP_PREFIX, FORMAT, BackupHead, BackupManifest
from choir_local.backup.sources import BackupScope, HomeFiles
from choir_local.database.backup import ShowProgress
from choir_local.database.connection import (
    DatabaseAccess,
    configured_server,
    open_database_in_use,
    program_output,
    require_embedded_database,
)
from choir_local.database.schemas import schema_statuses
from choir_local.database.store import DatabaseStore
from choir_local.home import Home, sync_directory
from choir_local.settings import LocalSettings

PIECE = 8 << 20  # bytes of the dump in memory at a time


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """A backup to write."""

    target: Path
    choir: str
    """Version of Choir."""
    passphrase: bytes | None
    """None writes a plain tar archive, which must not include secrets."""
    scope: BackupScope


async def create_home_backup(
    settings: LocalSettings, request: BackupRequest, show_progress: ShowProgress
) -> BackupManifest:
    """Write the backup and return its manifest. It exists completely or not at all.

    Raises Conflict when the file exists, NotFound when its directory or the database does not, and
    StartupError when the database cannot be read.
    """
    if request.passphrase is None and request.scope.secrets:
        raise ValueError(_("secrets are never written without a passphrase"))
    _check_target(request.target)
    home = Home(settings.home.expanduser().absolute())
    async with open_database_in_use(settings) as access:
        with _partial_file(request.target) as file:
            sink: CleartextWriter = (
                AgeWriter(file, request.passphrase) if request.passphrase else file
            )
            writer = BackupWriter(sink, _head(request, home))
            content = _Content(access, writer, HomeFiles(home, request.scope, writer))
            manifest = await content.write_all(show_progress)
            await asyncio.to_thread(writer.finish, manifest)
            if isinstance(sink, AgeWriter):
                sink.finish()
    return manifest


def require_own_home(settings: LocalSettings) -> None:
    """Raise Conflict where this machine's choirctl cannot upgrade, NotFound without an embedded database."""
    if settings.postgres_dsn:
        raise Conflict(
            _(
                "This is a container, which cannot replace itself. Upgrade from outside: "
                "`choirctl upgrade --compose DIR`, see docs/upgrade.md."
            )
        )
    if configured_server(Home(settings.home.expanduser().absolute())) is None:
        require_embedded_database(settings)


def _head(request: BackupRequest, home: Home) -> BackupHead:
    now = datetime.now(UTC)
    return BackupHead(format=FORMAT, choir=request.choir, made_at=now, home=str(home.root))


def _check_target(target: Path) -> None:
    if target.exists():
        raise Conflict(
            _("{target} exists. Choose another name, or remove it.").format(target=target)
        )
    if not target.parent.is_dir():
        raise NotFound(_("There is no directory {parent}.").format(parent=target.parent))


@contextlib.contextmanager
def _partial_file(target: Path) -> Iterator[BinaryIO]:
    partial = target.with_name(f".{target.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        raise StartupError(
            _("{target} cannot be written: {strerror}.").format(
                target=target, strerror=error.strerror
            )
        ) from error
    finally:
        partial.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Content:
    """The parts of one backup."""

    access: DatabaseAccess
    writer: BackupWriter
    files: HomeFiles

    async def write_all(self, show_progress: ShowProgress) -> BackupManifest:
        """Write the dump and the files; return the manifest."""
        async with self.access.database() as database:
            schemas = {it.schema: it.revision for it in await schema_statuses(database)}
            await self._write_dump(show_progress)
            # after the dump: an extra role does no harm, a missing one would
            roles = await DatabaseStore(database).roles()
            if self.access.configured is not None:
                # it may have privileges in the dump
                roles.append(self.access.configured.user)
        walk = self.files.add_all()
        while (added := await asyncio.to_thread(next, walk, None)) is not None:
            show_progress(f"files: {added / 1e6:.1f} MB")
        return BackupManifest(
            postgres=self.access.binaries.version,
            roles=roles,
            schemas=schemas,
            secrets=self.files.scope.secrets,
            workspaces=self.files.scope.workspaces,
            skipped=self.files.skipped,
            files=self.writer.files,
        )

    async def _write_dump(self, show_progress: ShowProgress) -> None:
        size = number = 0
        options = ("pg_dump", "--format=custom", self.access.name)
        async with program_output(self.access, *options) as output:
            while piece := await _read_piece(output):
                await asyncio.to_thread(self.writer.add_bytes, f"{DUMP_PREFIX}{number:06}", piece)
                size, number = size + len(piece), number + 1
                show_progress(f"database: {size / 1e6:.1f} MB")


async def _read_piece(output: asyncio.StreamReader) -> bytes:
    try:
        return await output.readexactly(PIECE)
    except asyncio.IncompleteReadError as end:
        return end.partial

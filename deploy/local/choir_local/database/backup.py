"""Backup of everything durable into one file, with Choir running or stopped (`choirctl db backup`).

pg_dump reads one snapshot of the whole database: everything acknowledged before it started is in the file.
The bus has no data of its own. Workspaces are the user's files and are not included.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from choir_common.errors import Conflict, NotFound
from choir_common.i18n import _
from choir_local.database.archive import (
    AUDIT_KEYS,
    CONFIG,
    DUMP,
    FORMAT,
    SECRETS,
    Manifest,
    describe,
    pack,
)
from choir_local.database.connection import (
    DatabaseAccess,
    open_database,
    require_embedded_database,
    run_program,
)
from choir_local.database.schemas import schema_statuses
from choir_local.database.store import DatabaseStore
from choir_local.home import Home
from choir_local.postgres_cluster import DATABASE
from choir_local.settings import LocalSettings

ShowProgress = Callable[[str], None]
"""Shows a progress text."""


async def create_backup(
    settings: LocalSettings,
    target: Path,
    version: str,
    *,
    with_secrets: bool,
    show_progress: ShowProgress,
) -> Manifest:
    """Write `target` and return its manifest.

    Raises Conflict when the file exists, NotFound when its directory does not, and StartupError when the
    database cannot be read.
    """
    require_embedded_database(settings)
    _check_target(target)
    # in the target's directory: a whole database may be too large for a temporary file system
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        directory = Path(name)
        async with open_database(settings) as access:
            manifest = await _collect(access, directory, version, with_secrets, show_progress)
        show_progress(_("writing the file"))
        await asyncio.to_thread(pack, manifest, directory, target)
    return manifest


def _check_target(target: Path) -> None:
    if target.exists():
        raise Conflict(
            _("{target} exists. Choose another name, or remove it.").format(target=target)
        )
    if not target.parent.is_dir():
        raise NotFound(_("There is no directory {parent}.").format(parent=target.parent))


async def _collect(
    access: DatabaseAccess,
    directory: Path,
    version: str,
    with_secrets: bool,
    show_progress: ShowProgress,
) -> Manifest:
    async with access.database() as database:
        store = DatabaseStore(database)
        schemas = {status.schema: status.revision for status in await schema_statuses(database)}
        dump = directory / DUMP
        await run_program(
            access,
            "pg_dump",
            *("--format=custom", "--file", str(dump), DATABASE),
            inspect_progress=lambda: show_progress(
                _("reading the database: {size}").format(size=_size(dump))
            ),
        )
        # after the dump: an extra role does no harm, a missing one would
        roles = await store.roles()
    show_progress("checking")
    parts = [dump, *_copy(access.home, directory, with_secrets)]
    return Manifest(
        format=FORMAT,
        choir=version,
        made_at=datetime.now(UTC),
        postgres=access.binaries.version,
        roles=roles,
        schemas=schemas,
        parts={path.name: await asyncio.to_thread(describe, path) for path in parts},
    )


def _copy(home: Home, directory: Path, with_secrets: bool) -> list[Path]:
    sources = [
        (CONFIG, home.config_file),
        *(
            [(SECRETS, home.secrets_file), (AUDIT_KEYS, home.audit_keys_file)]
            if with_secrets
            else []
        ),
    ]
    copied = [directory / name for name, path in sources if path.exists()]
    for name, path in sources:
        if path.exists():
            shutil.copyfile(path, directory / name)
            (directory / name).chmod(0o600)
    return copied


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB" if path.exists() else "starting"

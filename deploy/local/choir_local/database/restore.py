"""Atomic replacement of a home's database by a backup (`choirctl db restore`).

The dump is restored into a separate database, migrated and verified there. Then one transaction renames it to
the name of the current one. After a crash before that, the old database is unchanged and the command can be
repeated.
"""

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict, NotFound, StartupError
from choir_common.eventlog.key_file import restore_keys
from choir_common.i18n import _
from choir_common.stack_secrets import OPERATOR_TOKEN, RESERVED_SECRETS
from choir_local.database.archive import AUDIT_KEYS, CONFIG, DUMP, SECRETS, Manifest, unpack
from choir_local.database.backup import ShowProgress
from choir_local.database.connection import MAINTENANCE, DatabaseAccess, open_database, run_program
from choir_local.database.schemas import migrate_all
from choir_local.database.store import DatabaseStore, LogVerification
from choir_local.home import Home, write_private
from choir_local.postgres_cluster import DATABASE
from choir_local.settings import LocalSettings

NEW_DATABASE = "choir_restoring"
OLD_DATABASE = "choir_replaced"
ASYNC_COMMIT = "-c synchronous_commit=off"
"""One transaction per statement: a single one would keep a lock on each of an agent's 36 relations.

None of them has to be durable before the rename, whose durable transaction includes all of them.
"""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Result of a restore."""

    manifest: Manifest
    chains: list[LogVerification]
    previous_files: list[Path]
    """Files that were there before, under their new names."""


async def restore(
    settings: LocalSettings, source: Path, *, force: bool, show_progress: ShowProgress
) -> RestoreResult:
    """Replace the home's data by the contents of `source`.

    Raises NotFound or InvalidRequest for a file that is not a valid backup, Conflict when data would be
    replaced
    without `force` or a stack runs there, and StartupError when the data cannot be read.
    """
    if not await asyncio.to_thread(source.is_file):
        raise NotFound(_("There is no file {source}.").format(source=source))
    home = Home(settings.home.expanduser().absolute())
    home.make()
    with tempfile.TemporaryDirectory(prefix="restore-", dir=home.data) as name:
        directory = Path(name)
        show_progress(_("checking the file"))
        manifest = await asyncio.to_thread(unpack, source, directory)
        async with open_database(settings, stopped=True) as access:
            if not force:
                await _reject_replacement(access, directory)
            # files are replaced only after the new database was verified, and the database is
            # renamed last
            chains = await load_dump(access, directory / DUMP, manifest.roles, show_progress)
            previous_files = [*_put_config(home, directory), *_put_secrets(home, directory)]
            restore_keys(home.audit_keys_file, directory / AUDIT_KEYS)
            await replace_database(access)
    return RestoreResult(manifest, chains, previous_files)


async def _reject_replacement(access: DatabaseAccess, directory: Path) -> None:
    async with access.database() as database:
        if not await DatabaseStore(database).is_empty():
            raise Conflict(
                _(
                    "The database in {root} contains sessions or memories. Restore into another "
                    "state directory (--home), or replace them with --yes."
                ).format(root=access.home.root)
            )
    config = access.home.config_file
    incoming = directory / CONFIG
    if config.exists() and incoming.exists() and config.read_bytes() != incoming.read_bytes():
        raise Conflict(
            _(
                "{config} differs from the one in the backup. With --yes it is replaced, and a "
                "copy is saved under another name."
            ).format(config=config)
        )


async def load_dump(
    access: DatabaseAccess, dump: Path, roles: list[str], show_progress: ShowProgress
) -> list[LogVerification]:
    """Load a dump into a separate database, migrate it and verify its logs; `replace_database` uses it.

    Raises StartupError when that fails; the database in use is unchanged.
    """
    async with access.database(MAINTENANCE) as maintenance:
        store = DatabaseStore(maintenance)
        await store.make_database(NEW_DATABASE)
        await store.make_roles(roles)
    await run_program(
        access,
        "pg_restore",
        # the dump of a Postgres elsewhere names another owner
        *("--exit-on-error", "--no-owner"),
        *("--dbname", f"dbname={NEW_DATABASE} options='{ASYNC_COMMIT}'"),
        str(dump),
        inspect_progress=lambda: show_progress(_("restoring the database")),
    )
    async with access.database(NEW_DATABASE) as new_database:
        show_progress(_("migrating the schemas"))
        await migrate_all(new_database)
        show_progress(_("verifying the logs"))
        chains = await DatabaseStore(new_database).verify_logs()
    broken = [chain for chain in chains if chain.reason]
    if broken:
        first = broken[0]
        raise StartupError(
            _(
                "Verification of the log of session {session_id} failed: {reason}. ({count} of "
                "{count2} sessions.) Nothing was replaced."
            ).format(
                session_id=first.session_id,
                reason=first.reason,
                count=len(broken),
                count2=len(chains),
            )
        )
    return chains


async def replace_database(access: DatabaseAccess) -> None:
    """Put the loaded database under the name of the one in use, which is dropped."""
    async with access.database(MAINTENANCE) as maintenance:
        store = DatabaseStore(maintenance)
        await store.rename_into_place(DATABASE, NEW_DATABASE, OLD_DATABASE)
        await store.drop_database(OLD_DATABASE)


def _put_config(home: Home, directory: Path) -> list[Path]:
    incoming = directory / CONFIG
    if not incoming.exists():
        return []
    previous_files = []
    if home.config_file.exists() and home.config_file.read_bytes() != incoming.read_bytes():
        aside = home.config_file.with_name("config.json.before-restore")
        shutil.copyfile(home.config_file, aside)
        previous_files.append(aside)
    write_private(home.config_file, incoming.read_text(), durable=True)
    return previous_files


def _put_secrets(home: Home, directory: Path) -> list[Path]:
    """Merge the backup's secrets, without those of this home's own servers."""
    incoming = directory / SECRETS
    if not incoming.exists():
        return []
    own = json.loads(home.secrets_file.read_text())
    backup_secrets = json.loads(incoming.read_text())
    # The operator token is restored, because people's clients have it.
    for name in RESERVED_SECRETS - {OPERATOR_TOKEN}:
        backup_secrets.pop(name, None)
    aside = home.secrets_file.with_name("secrets.json.before-restore")
    write_private(aside, json.dumps(own), durable=True)
    write_private(home.secrets_file, json.dumps({**own, **backup_secrets}, indent=2), durable=True)
    return [aside]

"""Choir's data from before an upgrade, on a server that config.json names.

Such a server may hold data of others, and its user may create no database. So the copy is a dump of Choir's
schemas in a file. Going back is one transaction, which drops the schemas and restores them: it happens
completely or not at all. Before anything is changed, the same transaction is run and rolled back. Where it
fails, for lack of a right or of room for locks, the upgrade ends there.
"""

import asyncio
import contextlib
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path

from choir_common.errors import Conflict, StartupError
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_local.database.connection import (
    APPLICATION,
    DatabaseAccess,
    open_database_in_use,
    password_file,
    program_environment,
    program_output,
    program_path,
    run_program,
)
from choir_local.database.schemas import OWN
from choir_local.database.store import DatabaseStore
from choir_local.home import Home, sync_directory, write_private
from choir_local.settings import LocalSettings
from choir_local.upgrade.record import UpgradeRecordFile
from choir_local.upgrade.snapshot import compare_heads, read_heads

PIECE = 1 << 20  # bytes
LOCK_WITHIN = "2min"
"""How long the restore waits for somebody who still uses a table."""
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND application_name <> $1"""
OUTSIDE = """
    WITH names AS (SELECT oid FROM pg_namespace WHERE nspname IN ({names}))
    SELECT (SELECT count(*) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM names))
         + (SELECT count(*) FROM pg_constraint WHERE connamespace NOT IN (SELECT oid FROM names))
         + (SELECT count(*) FROM pg_proc WHERE pronamespace NOT IN (SELECT oid FROM names))"""
"""Counts what is not Choir's; a view of somebody else on a table of Choir would go with the table."""
BEGIN = """\
BEGIN;
SET LOCAL lock_timeout = '{lock_within}';
SET LOCAL client_min_messages = warning;
SELECT set_config('choir.outside', ({outside})::text, true);
DROP SCHEMA IF EXISTS {quoted} CASCADE;
DO $$ BEGIN
    IF ({outside})::text <> current_setting('choir.outside') THEN
        RAISE EXCEPTION 'objects in other schemas depend on those of Choir';
    END IF;
END $$;
"""


class ExternalSnapshot:
    """A dump of Choir's schemas, and their heads, in the directory of the upgrade."""

    def __init__(self, settings: LocalSettings, home: Home) -> None:
        self._settings = settings
        directory = UpgradeRecordFile(home).directory
        self._dump = directory / "database.dump"
        self._heads = directory / "heads.json"
        self._failed = directory / "failed.dump"
        """The data of an upgrade that was undone, until the next upgrade."""

    def exists(self) -> bool:
        """Return whether an upgrade has dumped the schemas and not ended yet."""
        return self._dump.exists()

    async def database_size(self) -> int:
        """Return the size of the database on the server."""
        async with self._open() as (_access, database):
            return int(await database.fetchval("SELECT pg_database_size(current_database())"))

    async def make(self) -> None:
        """Dump the schemas, and show that they can be restored. Raises Conflict if they are in use."""
        self._failed.unlink(missing_ok=True)
        async with self._open() as (access, database):
            others = await database.fetchval(OTHERS, APPLICATION)
            if others:
                raise Conflict(
                    _(
                        "{count} other connections of Choir's user use the database at {host}. Stop what "
                        "they belong to."
                    ).format(count=others, host=access.host)
                )
            heads = sorted(await read_heads(database))
            write_private(self._heads, json.dumps(heads), durable=True)
            await self._write_dump(access, self._dump, await _schemas(database))
            try:
                await self._replace(access, database, "ROLLBACK")
            except StartupError as error:
                self._dump.unlink()
                raise Conflict(
                    _(
                        "Choir's schemas on the Postgres at {host} could not be put back if the upgrade "
                        "failed: {error} Nothing was changed there. See docs/upgrade.md."
                    ).format(host=access.host, error=error)
                ) from error

    async def check_heads(self) -> None:
        """Compare the logs with those from before."""
        before = {tuple(row) for row in json.loads(self._heads.read_text())}
        async with self._open() as (_access, database):
            compare_heads(before, await read_heads(database))

    async def restore(self) -> None:
        """Replace the schemas by the dump, and keep what the failed version wrote in a file."""
        if not self._dump.exists():
            return
        async with self._open() as (access, database):
            with contextlib.suppress(StartupError):
                await self._write_dump(access, self._failed, await _schemas(database))
            await self._replace(access, database, "COMMIT")
        self._dump.unlink()

    async def remove(self) -> None:
        """Remove the dumps."""
        for path in (self._dump, self._heads, self._failed):
            path.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[DatabaseAccess, Database]]:
        async with (
            open_database_in_use(self._settings) as access,
            access.database(size=1) as database,
        ):
            yield access, database

    async def _write_dump(self, access: DatabaseAccess, target: Path, schemas: list[str]) -> None:
        partial = target.with_suffix(".partial")
        partial.touch(mode=0o600)
        words = [f'--schema="{name}"' for name in schemas]
        await run_program(
            access,
            "pg_dump",
            *("--format=custom", f"--file={partial}", *words, access.name),
            inspect_progress=lambda: None,
        )
        partial.replace(target)
        sync_directory(target.parent)

    async def _replace(self, access: DatabaseAccess, database: Database, end: str) -> None:
        """Drop the schemas and restore them in one transaction, which ends with COMMIT or ROLLBACK.

        Without its end, as after a kill, the server rolls the transaction back.
        """
        names = await _schemas(database)
        literals = ", ".join(f"'{name}'" for name in (*names, "pg_toast"))
        begin = BEGIN.format(
            lock_within=LOCK_WITHIN,
            quoted=", ".join(f'"{name}"' for name in names),
            outside=OUTSIDE.format(names=literals),
        )
        with password_file(access) as passwords:
            psql = await asyncio.create_subprocess_exec(
                program_path(access, "psql"),
                *access.options,
                *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={access.name}"),
                env=program_environment(passwords),
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=PIPE,
            )
            try:
                await self._feed(access, psql, begin, end)
            finally:
                if psql.returncode is None:
                    psql.kill()
                    await psql.wait()

    async def _feed(
        self, access: DatabaseAccess, psql: asyncio.subprocess.Process, begin: str, end: str
    ) -> None:
        if psql.stdin is None or psql.stderr is None:
            raise RuntimeError("the process has no pipes")
        async with asyncio.TaskGroup() as tasks:
            errors = tasks.create_task(psql.stderr.read())
            # psql has ended at an error: its own text says why
            with contextlib.suppress(ConnectionError):
                psql.stdin.write(begin.encode())
                words = ("pg_restore", "--no-owner", "--file=-", str(self._dump))
                async with program_output(access, *words, connects=False) as script:
                    while piece := await script.read(PIECE):
                        psql.stdin.write(piece)
                        await psql.stdin.drain()
                psql.stdin.write(f"\n{end};\n".encode())
                psql.stdin.close()
                await psql.stdin.wait_closed()
            code = await psql.wait()
        if code:
            text = " ".join(errors.result().decode(errors="replace").split())
            raise StartupError(_("{name} failed: {message}").format(name="psql", message=text))


async def _schemas(database: Database) -> list[str]:
    """Return the schemas of Choir that exist."""
    names = [name for name, _ in OWN]
    names += [f"choir_{agent}" for agent in await DatabaseStore(database).agents()]
    sql = "SELECT nspname FROM pg_namespace WHERE nspname = ANY($1) ORDER BY nspname"
    return [row["nspname"] for row in await database.fetch(sql, names)]

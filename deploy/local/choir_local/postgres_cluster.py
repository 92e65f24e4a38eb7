"""Creation and checks of a Postgres data directory.

Called by `EmbeddedPostgres` before each start. A cluster is created in a temporary directory and then
renamed, so an existing data directory is always complete.
"""

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_local.home import sync_directory
from choir_local.launch import Command, clean_environment, run_to_end
from choir_local.postgres_binaries import PostgresBinaries
from choir_local.process_user import ProcessUser

SUPERUSER = "choir"
DATABASE = "choir"
MAKE_WITHIN = timedelta(minutes=3)  # 1 s on a good disk; a slow one must not fail
RELEASE_WITHIN = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data directory, the programs that serve it and the user they run as."""

    data_dir: Path
    binaries: PostgresBinaries
    identity: ProcessUser

    async def create(self, password: str) -> None:
        """Create the cluster with the database `choir` and pgvector, atomically.

        Raises StartupError with the output of initdb.
        """
        partial = self._begin()
        await self._run_initdb(partial, password)
        await self._run_single(
            partial, f"CREATE EXTENSION vector;\nCREATE DATABASE {DATABASE};\n", "template1"
        )
        self._finish(partial)

    def _begin(self) -> Path:
        """Return an empty directory next to the cluster's path; remove those of earlier attempts."""
        name = f"{self.data_dir.name}.partial-"
        for leftover in self.data_dir.parent.glob(f"{name}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=name, dir=self.data_dir.parent))
        self.change_owner(partial)
        return partial

    def _finish(self, partial: Path) -> None:
        partial.replace(self.data_dir)
        sync_directory(self.data_dir.parent)

    async def set_password(self, password: str) -> None:
        """Change the superuser's password while no server runs."""
        quoted = password.replace("'", "''")
        statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{quoted}';\n"
        await self._run_single(self.data_dir, statement, DATABASE)

    def change_owner(self, path: Path) -> None:
        """Give `path` and everything below it to the user the server runs as, unless that user owns it."""
        uid, gid = self.identity.owner_uid, self.identity.owner_gid
        if uid is None or gid is None or path.stat().st_uid == uid:
            return
        os.chown(path, uid, gid)
        for below in path.rglob("*"):
            os.chown(below, uid, gid, follow_symlinks=False)

    async def _run_initdb(self, directory: Path, password: str) -> None:
        options = (
            f"--pgdata={directory}",
            f"--username={SUPERUSER}",
            "--pwfile=/dev/stdin",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C.UTF-8",
            "--no-instructions",
        )
        argv = (self.binaries.program("initdb"), *options)
        await self._run(argv, f"{password}\n", _("create the database"))

    async def _run_single(self, directory: Path, statements: str, database: str) -> None:
        """Run SQL without a server; a failing statement ends the run (exit_on_error)."""
        argv = (
            self.binaries.program("postgres"),
            *("--single", "-D", str(directory), "-c", "exit_on_error=on"),
            *("-c", "log_statement=none", "-c", "log_min_error_statement=panic", database),
        )
        await self._run(argv, statements, _("prepare the database"))

    async def _run(self, argv: tuple[str, ...], stdin: str, task: str) -> None:
        # otherwise initdb reads hundreds of zone files to guess the time zone; times are stored in UTC
        env = clean_environment(TZ="UTC", PGTZ="UTC")
        command = Command(argv, env, stdin.encode(), identity=self.identity)
        try:
            code, output = await run_to_end(command, MAKE_WITHIN)
        except TimeoutError as error:
            raise StartupError(
                _("Could not {task} in {data_dir} within {make_within}: is the disk slow?").format(
                    task=task, data_dir=self.data_dir, make_within=MAKE_WITHIN
                )
            ) from error
        if code != 0:
            output_tail = " ".join(line.strip() for line in output.splitlines()[-4:])
            raise StartupError(
                _("Could not {task} in {data_dir}: {output_tail}").format(
                    task=task, data_dir=self.data_dir, output_tail=output_tail
                )
            )


def read_major_version(data_dir: Path) -> int | None:
    """Return the major version of the cluster in `data_dir`, or None if there is none.

    Raises StartupError if the directory contains something else.
    """
    if not data_dir.exists() or not any(data_dir.iterdir()):
        return None
    try:
        return int((data_dir / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise StartupError(
            _(
                "{data_dir} is not empty and contains no Postgres data (no readable PG_VERSION). "
                "Nothing was touched. Move it away, or choose another state directory with "
                "CHOIR_HOME."
            ).format(data_dir=data_dir)
        ) from error


def check_major_version(data_dir: Path, major: int, binaries: PostgresBinaries) -> None:
    """Raise StartupError for data of another major version.

    The error names the directory, both versions and what to do.
    """
    if major != binaries.major:
        raise StartupError(
            _(
                "The data in {data_dir} was written by Postgres {major}, but the Postgres found "
                "here is {version} ({source}). Nothing was touched. Set CHOIR_PG_BIN to the "
                "program directory of a Postgres {major} with pgvector; or, to move to {major2}, "
                "dump the data with {major} (pg_dumpall), move the directory away, start Choir "
                "once and restore the dump."
            ).format(
                data_dir=data_dir,
                major=major,
                version=binaries.version,
                source=binaries.source,
                major2=binaries.major,
            )
        )


async def release_directory(data_dir: Path) -> None:
    """Wait until no process of an earlier server uses `data_dir`, then remove its lock file.

    Postgres removes a stale lock file itself, unless the pid in it now belongs to another program.

    Raises StartupError if an earlier server does not end.
    """
    lock_file = data_dir / "postmaster.pid"
    if not lock_file.exists():
        return
    deadline = time.monotonic() + RELEASE_WITHIN.total_seconds()
    while pids := await asyncio.to_thread(_processes_in, data_dir):
        if time.monotonic() > deadline:
            raise StartupError(
                _(
                    "Another Postgres (process {pids}) is using {data_dir}. Stop it first: `choirctl "
                    "down`, or end that process."
                ).format(pids=pids[0], data_dir=data_dir)
            )
        await asyncio.sleep(0.05)
    lock_file.unlink(missing_ok=True)


def _processes_in(data_dir: Path) -> list[int]:
    """Return the processes with the working directory `data_dir`: servers and their backends."""
    target_dir = str(data_dir.resolve())
    return [
        process.pid for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == target_dir
    ]

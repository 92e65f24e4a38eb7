"""Access to the database of a home: of the running stack, started temporarily, in a container, or elsewhere.

Called by `backup`, `restore` and `schemas`; also runs pg_dump and pg_restore for them. While a temporary
server runs, the home is locked, so that no stack starts at the same time.
"""

import asyncio
import contextlib
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from choir_common.errors import Conflict, NotFound, StartupError
from choir_common.i18n import _
from choir_common.postgres.configured import read_postgres_address
from choir_common.postgres.pool import Database
from choir_common.secret_file import read_secret_file
from choir_common.stack_secrets import POSTGRES_ADMIN
from choir_common.wire.config import PostgresConfig
from choir_local.config_values import read_config
from choir_local.home import Home, write_private
from choir_local.launch import clean_environment
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from choir_local.postgres_binaries import (
    PostgresBinaries,
    find_client_programs,
    find_postgres_binaries,
)
from choir_local.postgres_cluster import DATABASE, SUPERUSER, read_major_version
from choir_local.settings import LocalSettings
from choir_local.stack_secrets import load_or_create_secrets
from choir_local.stack_state import is_locked, lock_home

APPLICATION = "choirctl-db"
MAINTENANCE = "postgres"
LOOK_S = 0.2
SAID_LINES = 5


@dataclass(frozen=True, slots=True)
class DatabaseAccess:
    """A reachable database and its client binaries."""

    home: Home
    host: str
    """Host name, or directory of the socket."""
    password: str
    binaries: PostgresBinaries
    configured: PostgresConfig | None = None
    """The server that config.json names, if this is it."""

    def database(self, name: str = DATABASE, size: int = 2) -> Database:
        """Return a pool for one of its databases; open it with `async with`."""
        dsn = f"postgresql://{SUPERUSER}@/{name}?host={self.host}"
        if self.configured is not None:
            dsn = self.configured.dsn
        return Database(dsn, self.password, size=size, application=APPLICATION)

    @property
    def name(self) -> str:
        """Return the name of Choir's database."""
        return self.configured.database if self.configured else DATABASE

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options with which Postgres' programs reach it."""
        server = self.configured
        user = server.user if server else SUPERUSER
        port = ("--port", str(server.port)) if server else ()
        return ("--host", self.host, *port, "--username", user, "--no-password")


@contextlib.asynccontextmanager
async def open_database(
    settings: LocalSettings, *, stopped: bool = False
) -> AsyncIterator[DatabaseAccess]:
    """Provide the database of a home during the block; `stopped` requires that no stack runs there.

    Raises Conflict when a stack runs and must not, and StartupError when there is no database or it cannot be
    started.
    """
    home = Home(settings.home.expanduser().absolute())
    if settings.postgres_dsn:
        access = _reach_elsewhere(home, settings)
        if stopped:
            await _refuse_if_used(access)
        yield access
        return
    if home.lock_file.exists() and is_locked(home):
        if stopped:
            raise Conflict(
                _(
                    "Choir runs in {root}. Stop it first with `choirctl down`; nothing was changed."
                ).format(root=home.root)
            )
        yield _reached(home, settings)
        return
    home.make()
    with lock_home(home):
        secrets = load_or_create_secrets(home.secrets_file)
        paths = PostgresPaths(
            home.data / "postgres",
            home.postgres_sockets,
            home.logs / "postgres.log",
            settings.pg_bin,
        )
        # A newly created password is not the one that an existing cluster has.
        server = EmbeddedPostgres(
            paths, secrets.values[POSTGRES_ADMIN], reset_password=POSTGRES_ADMIN in secrets.created
        )
        await server.start()
        try:
            yield _reached(home, settings)
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def open_database_in_use(settings: LocalSettings) -> AsyncIterator[DatabaseAccess]:
    """Provide the database that Choir uses, which may be the one that config.json names, for reading.

    Raises NotFound when there is none, and StartupError when it cannot be reached.
    """
    home = Home(settings.home.expanduser().absolute())
    server = configured_server(home)
    if server is None:
        require_embedded_database(settings)
        async with open_database(settings) as access:
            yield access
        return
    address = read_postgres_address(home.config_file, read_secret_file(home.secrets_file))
    if address is None:
        raise StartupError(
            _("{config_file} was changed meanwhile.").format(config_file=home.config_file)
        )
    programs = _client_programs(settings)
    yield DatabaseAccess(home, server.host, address.password, programs, configured=server)


def configured_server(home: Home) -> PostgresConfig | None:
    """Return the Postgres that config.json names, or None if Choir uses its own."""
    config = read_config(home.config_file)
    return config.postgres if config else None


def _client_programs(settings: LocalSettings) -> PostgresBinaries:
    """Return pg_dump of the system, else of the embedded Postgres."""
    try:
        return find_client_programs(settings.pg_bin)
    except StartupError:
        return find_postgres_binaries(settings.pg_bin)


def require_embedded_database(settings: LocalSettings) -> None:
    """Raise NotFound for a home without an embedded database."""
    home = Home(settings.home.expanduser().absolute())
    server = configured_server(home)
    if server is not None:
        raise NotFound(
            _(
                "{config_file} names the Postgres at {host}, and this command works on Choir's own "
                "only. `choirctl backup create` backs up either."
            ).format(config_file=home.config_file, host=server.host)
        )
    if not settings.postgres_dsn and read_major_version(home.data / "postgres") is None:
        raise NotFound(
            _(
                "There is no embedded database in {root}. If Choir runs in containers, run the "
                "command there: `docker compose exec control choirctl db …`."
            ).format(root=home.root)
        )


def _reached(home: Home, settings: LocalSettings) -> DatabaseAccess:
    values = load_or_create_secrets(home.secrets_file).values
    binaries = find_postgres_binaries(settings.pg_bin, read_major_version(home.data / "postgres"))
    return DatabaseAccess(home, str(home.postgres_sockets), values[POSTGRES_ADMIN], binaries)


class _Secrets(BaseModel):
    """The part of CHOIR_SECRETS_FILE that is needed in a container."""

    model_config = ConfigDict(extra="ignore")

    postgres_password: SecretStr = SecretStr("")


def _reach_elsewhere(home: Home, settings: LocalSettings) -> DatabaseAccess:
    password = settings.read_secrets(_Secrets).postgres_password.get_secret_value()
    host = urlsplit(settings.postgres_dsn).hostname or ""
    return DatabaseAccess(home, host, password, find_client_programs(settings.pg_bin))


async def _refuse_if_used(access: DatabaseAccess) -> None:
    async with access.database(MAINTENANCE, size=1) as database:
        used = await database.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", DATABASE
        )
    if used:
        raise Conflict(
            _(
                "{used} connections use the database. Stop their services first: `docker compose "
                "stop control memory backups`; nothing was changed."
            ).format(used=used)
        )


@contextlib.contextmanager
def password_file(access: DatabaseAccess) -> Iterator[Path]:
    """Provide a password file for Postgres' programs: never an argument or a variable."""
    quoted = access.password.replace("\\", "\\\\").replace(":", "\\:")
    with tempfile.TemporaryDirectory(prefix="choirctl-") as folder:
        path = Path(folder) / "pgpass"
        write_private(path, f"*:*:*:*:{quoted}\n")
        yield path


def program_environment(passwords: Path) -> dict[str, str]:
    """Return the variables of a Postgres program that uses a password file."""
    return clean_environment(PGPASSFILE=str(passwords), PGAPPNAME=APPLICATION)


async def run_program(
    access: DatabaseAccess, name: str, *options: str, inspect_progress: Callable[[], None]
) -> None:
    """Run a Postgres program to its end; call `inspect_progress` every 0.2 s, to show the progress.

    Raises StartupError with the program's error output.
    """
    program = program_path(access, name)
    with password_file(access) as passwords:
        process = await asyncio.create_subprocess_exec(
            program,
            *access.options,
            *options,
            env=program_environment(passwords),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        talking = asyncio.ensure_future(process.communicate())
        try:
            while not (await asyncio.wait((talking,), timeout=LOOK_S))[0]:
                inspect_progress()
        except BaseException:
            process.kill()
            await talking
            raise
    _, stderr = talking.result()
    _check_exit(name, process.returncode or 0, stderr)


@contextlib.asynccontextmanager
async def program_output(
    access: DatabaseAccess, name: str, *options: str, connects: bool = True
) -> AsyncIterator[asyncio.StreamReader]:
    """Run a Postgres program and provide its output, which the block reads to its end.

    `connects` gives it the address of the server.
    Raises StartupError with the program's error output if it fails.
    """
    program = program_path(access, name)
    with password_file(access) as passwords:
        process = await asyncio.create_subprocess_exec(
            program,
            *(access.options if connects else ()),
            *options,
            env=program_environment(passwords),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("the process has no pipes")
        errors = asyncio.ensure_future(process.stderr.read())
        try:
            yield process.stdout
            _check_exit(name, await process.wait(), await errors)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await errors


def _check_exit(name: str, code: int, stderr: bytes) -> None:
    if code:
        message = " ".join(stderr.decode(errors="replace").splitlines()[:SAID_LINES])
        raise StartupError(_("{name} failed: {message}").format(name=name, message=message))


def program_path(access: DatabaseAccess, name: str) -> str:
    """Return the path of a Postgres program. Raises StartupError without it."""
    program = Path(access.binaries.program(name))
    if not program.is_file():
        raise StartupError(
            _(
                "There is no {name} beside the Postgres in use ({directory}). Set CHOIR_PG_BIN "
                "to a complete installation."
            ).format(name=name, directory=access.binaries.directory)
        )
    return str(program)

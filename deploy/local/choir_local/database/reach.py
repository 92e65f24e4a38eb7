"""Reach the embedded database of a home: the running stack's, or one started for the purpose.

Called by `backup`, `restore` and `schemas`. While a database was started here, the home is held, so that no
stack starts beside it.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict, NotFound
from choir_common.postgres.pool import Database
from choir_local.home import Home
from choir_local.postgres import EmbeddedPostgres, PostgresPlaces
from choir_local.postgres_binaries import PostgresBinaries, find_postgres_binaries
from choir_local.postgres_cluster import DATABASE, SUPERUSER, read_major
from choir_local.private_file import write_private
from choir_local.settings import LocalSettings
from choir_local.stack_lock import hold_home, is_held
from choir_local.stack_secrets import POSTGRES_ADMIN, load_or_make_secrets

APPLICATION = "choirctl-db"


@dataclass(frozen=True, slots=True)
class Reached:
    """A database that answers, and the programs that fit it."""

    home: Home
    sockets: Path
    password: str
    binaries: PostgresBinaries

    def database(self, name: str = DATABASE, size: int = 2) -> Database:
        """Return a pool for one of its databases; open it with `async with`."""
        dsn = f"postgresql://{SUPERUSER}@/{name}?host={self.sockets}"
        return Database(dsn, self.password, size=size, application=APPLICATION)


@contextlib.asynccontextmanager
async def reach(settings: LocalSettings, *, stopped: bool = False) -> AsyncIterator[Reached]:
    """Lend the database of a home; `stopped` insists that no stack runs there.

    Raises Conflict when a stack runs and must not, StartupError when there is none, or it cannot be started.
    """
    home = Home(settings.home.expanduser().absolute())
    if home.lock_file.exists() and is_held(home):
        if stopped:
            raise Conflict(
                f"Choir runs in {home.root}. Stop it first with `choirctl down`; nothing was changed."
            )
        yield _reached(home, settings)
        return
    home.make()
    with hold_home(home):
        secrets = load_or_make_secrets(home.secrets_file)
        places = PostgresPlaces(
            home.data / "postgres",
            home.postgres_sockets,
            home.logs / "postgres.log",
            settings.pg_bin,
        )
        server = EmbeddedPostgres(places, secrets.values[POSTGRES_ADMIN])
        await server.prepare(reset_password=POSTGRES_ADMIN in secrets.fresh)
        await server.start()
        try:
            yield _reached(home, settings)
        finally:
            await server.stop()


def require_data(settings: LocalSettings) -> None:
    """Refuse a home without an embedded database.

    Raises NotFound.
    """
    home = Home(settings.home.expanduser().absolute())
    if read_major(home.data / "postgres") is None:
        raise NotFound(
            f"There is no embedded database in {home.root}. Where Postgres runs in a container or "
            "elsewhere, use its own pg_dump and pg_restore there."
        )


def _reached(home: Home, settings: LocalSettings) -> Reached:
    values = load_or_make_secrets(home.secrets_file).values
    binaries = find_postgres_binaries(settings.pg_bin, read_major(home.data / "postgres"))
    return Reached(home, home.postgres_sockets, values[POSTGRES_ADMIN], binaries)


@contextlib.contextmanager
def password_file(reached: Reached) -> Iterator[Path]:
    """Lend a file that Postgres' programs read the password from: never an argument or a variable."""
    path = reached.home.run / "pgpass"
    quoted = reached.password.replace("\\", "\\\\").replace(":", "\\:")
    write_private(path, f"*:*:*:*:{quoted}\n")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)

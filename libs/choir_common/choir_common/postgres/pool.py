"""Run statements on a small pool; every failure of the connection becomes a ChoirError.

Used by `store` modules. A connection that broke in the middle of a statement means *outcome unknown*:
the caller retries under the same key. One that could not be had means *unavailable*: nothing happened.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self, TypeAlias

import asyncpg
import stamina
import structlog
from asyncpg.pool import PoolConnectionProxy

from choir_common.cancelling import keeping_cancellation
from choir_common.errors import OutcomeUnknown, StartupError, Unavailable

log = structlog.get_logger("choir.postgres")

Record: TypeAlias = asyncpg.Record
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
AloneConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# what a statement raises when the server runs but does not take what it is told
Refused: TypeAlias = asyncpg.PostgresError

MAX_SCHEMAS = 200
"""Schemas that one connection may touch before another takes its place. Postgres keeps what a connection has
learnt of every table for as long as it lives: 70 KB for an agent's."""
MAX_QUERIES = 5_000
"""After which a connection is replaced as well: work of many schemas that does not say which it touches."""
STATEMENT_TIMEOUT_S = 30.0
ACQUIRE_TIMEOUT_S = 5.0
RETRY_AFTER_S = 2.0
# what asyncpg raises when the server or the connection is gone or in trouble; InternalClientError in more
# than half of the measured kills
_LOST = (
    asyncpg.InternalClientError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    # ended by an operator, a shutdown or recovery; out of memory or files; failing below the server
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    ConnectionError,
    TimeoutError,
    OSError,
)
_REFUSING = (
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DiskFullError,
)

_IS_READ_ONLY = """
SELECT current_setting('transaction_read_only')::boolean OR pg_catalog.pg_is_in_recovery()
"""
# more than `work_mem`, so it goes through a temporary file of some megabytes: no table grows for it
_SPILL = "SELECT count(*) FROM pg_catalog.generate_series(1, 200000)"


class Database:
    """A pool of connections; open it with `async with`."""

    def __init__(self, dsn: str, password: str | None, *, size: int, application: str) -> None:
        self._dsn = dsn
        self._password = password
        self._size = size
        self._application = application
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._was_full = False
        self._touched: dict[int, set[str]] = {}

    async def __aenter__(self) -> Self:
        """Open the pool, waiting up to half a minute for a server that is still starting.

        Raises StartupError when it does not come up or refuses the credentials.
        """
        try:
            async for attempt in stamina.retry_context(
                on=_LOST + _REFUSING, attempts=None, timeout=30, wait_initial=0.05, wait_max=1
            ):
                with attempt:
                    self._pool = await self._open()
        except (*_LOST, *_REFUSING, asyncpg.PostgresError) as error:
            raise StartupError(
                f"Cannot use Postgres at {self._dsn}: {error or type(error).__name__}. "
                "Check that it runs and that its password is the one in the secrets."
            ) from error
        return self

    async def _open(self) -> "asyncpg.Pool[asyncpg.Record]":
        return await asyncpg.create_pool(
            self._dsn,
            password=self._password,
            min_size=1,
            max_size=self._size,
            command_timeout=STATEMENT_TIMEOUT_S,
            timeout=ACQUIRE_TIMEOUT_S,
            init=self._prepare,
            max_queries=MAX_QUERIES,
            reset=_keep,
            server_settings={"application_name": self._application, "jit": "off"},
        )

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[AloneConnection]:
        """Lend a connection of its own, without a time limit: for work of minutes.

        Raises Unavailable when none can be had, OutcomeUnknown when it broke while in use.
        """
        try:
            with keeping_cancellation():
                held = await self.connect_alone()
        except (*_LOST, *_REFUSING) as error:
            raise _unreachable(error) from error
        try:
            with keeping_cancellation():
                yield held
        except _LOST as error:
            raise _broken(error) from error
        finally:
            held.terminate()

    async def connect_alone(self) -> AloneConnection:
        """Open a connection beside the pool, without its time limit: for migrations. The caller closes it."""
        return await asyncpg.connect(
            self._dsn, password=self._password, timeout=ACQUIRE_TIMEOUT_S, command_timeout=None
        )

    async def __aexit__(self, *exc: object) -> None:
        """Close the pool; connections still busy after two seconds are cut."""
        if self._pool:
            try:
                await _within(2, self._pool)
            finally:
                self._pool = None

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises Unavailable when none can be had, OutcomeUnknown when it broke while in use.
        """
        if self._pool is None:
            raise Unavailable("The database is not open: Choir is being stopped or started.")
        with keeping_cancellation():
            try:
                held = await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
            except (*_LOST, *_REFUSING) as error:
                raise _unreachable(error) from error
            try:
                yield held
            except _REFUSING as error:
                self._was_full = self._was_full or isinstance(error, asyncpg.DiskFullError)
                raise _refused(error) from error
            except _LOST as error:
                raise _broken(error) from error
            finally:
                with contextlib.suppress(*_LOST):
                    await self._pool.release(held)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a connection inside a transaction: all or nothing."""
        async with self.connection() as held, held.transaction():
            yield held

    @contextlib.asynccontextmanager
    async def transaction_in(self, schema: str, begin: str) -> AsyncIterator[Connection]:
        """Lend a transaction that touches one of many schemas; `begin` opens it in one round trip.

        A connection that has touched too many is replaced by a fresh one.
        """
        async with self.connection() as held:
            try:
                await held.execute(begin)
                yield held
            except BaseException:
                if not held.is_closed():
                    await held.execute("ROLLBACK")
                raise
            await held.execute("COMMIT")
            await self._replace_if_worn(held, schema)

    async def _replace_if_worn(self, held: Connection, schema: str) -> None:
        touched = self._touched[held.get_server_pid()]
        touched.add(schema)
        if len(touched) > MAX_SCHEMAS:
            # the pool opens another when this one is wanted again
            await held.close()

    async def _prepare(self, opened: AloneConnection) -> None:
        server_pid = opened.get_server_pid()
        self._touched[server_pid] = set()

        def forget(_: object) -> None:
            # one that is closed does not tell its number any more
            self._touched.pop(server_pid, None)

        opened.add_termination_listener(forget)

    async def fetch(self, sql: str, *args: object) -> Sequence[asyncpg.Record]:
        """Return all rows of one statement."""
        async with self.connection() as held:
            return await held.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: object) -> asyncpg.Record | None:
        """Return the first row of one statement."""
        async with self.connection() as held:
            return await held.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        """Return the first column of the first row."""
        async with self.connection() as held:
            return await held.fetchval(sql, *args)

    async def execute(self, sql: str, *args: object) -> str:
        """Run one statement; return its command tag."""
        async with self.connection() as held:
            return await held.execute(sql, *args)

    async def trouble(self) -> str | None:
        """Return why nothing can be written now, none if it can.

        A full disk is looked for once a statement has met it, until there is room again.
        """
        try:
            if await self.fetchval(_IS_READ_ONLY):
                return "the database takes no writing: it is read-only"
        except Unavailable as error:
            return f"the database does not answer: {error.message}"
        if self._was_full and not await self._has_room():
            return "the disk of the database is full"
        self._was_full = False
        return None

    async def _has_room(self) -> bool:
        try:
            async with self.transaction() as held:
                await held.execute("SET LOCAL work_mem = '64kB'")
                await held.fetchval(_SPILL)
        except Unavailable:
            return False
        return True

    async def reachable(self) -> bool:
        """Tell whether the server answers."""
        try:
            return bool(await self.fetchval("SELECT 1") == 1)
        except Unavailable:
            return False


def _unreachable(error: BaseException) -> Unavailable:
    log.info("database out of reach", error=repr(error))
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return Unavailable("The database has no free connection.", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, asyncpg.CannotConnectNowError):
        why = "it is starting or stopping"
    elif isinstance(error, TimeoutError):
        why = f"no connection was free within {ACQUIRE_TIMEOUT_S:g} s"
    else:
        why = "nothing answers there"
    return Unavailable(f"The database cannot be reached: {why}.", retry_after_s=RETRY_AFTER_S)


def _refused(error: BaseException) -> Unavailable:
    log.warning("database refuses work", error=repr(error))
    match error:
        case asyncpg.DiskFullError():
            why = "its disk is full"
        case asyncpg.ReadOnlySQLTransactionError():
            why = "it is read-only"
        case asyncpg.TooManyConnectionsError():
            why = "it has no free connection"
        case _:
            why = "it is starting or stopping"
    return Unavailable(f"The database refuses work: {why}.", retry_after_s=RETRY_AFTER_S)


def _broken(error: BaseException) -> OutcomeUnknown:
    log.info("database connection broke", error=repr(error))
    if isinstance(error, TimeoutError):
        why = "it did not answer in time"
    elif isinstance(error, asyncpg.InsufficientResourcesError | asyncpg.PostgresSystemError):
        why = "it is in trouble itself, and its log says which"
    else:
        why = "the connection broke"
    return OutcomeUnknown(
        f"The database may or may not have done this: {why}. Repeating it under the same key is safe.",
        retry_after_s=RETRY_AFTER_S,
    )


async def _keep(_: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Spare the round trip that resets a session: nobody here sets more than `SET LOCAL`."""


async def _within(seconds: float, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    try:
        await asyncio.wait_for(pool.close(), seconds)
    except TimeoutError:
        pool.terminate()

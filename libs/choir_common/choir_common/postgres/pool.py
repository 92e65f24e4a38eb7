"""Connection pool for Postgres; every connection failure is raised as a ChoirError.

Used by `store` modules. If a connection breaks during a statement the outcome is unknown, and the caller
retries under the same key. If no connection can be acquired the database is unavailable: nothing happened.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import asyncpg
import stamina
import structlog
from asyncpg.pool import PoolConnectionProxy

from choir_common.errors import OutcomeUnknown, StartupError, Unavailable
from choir_common.i18n import _
from choir_common.postgres.type_cache import TypeCachingConnection
from choir_common.process import preserve_cancellation

log = structlog.get_logger("choir.postgres")

T = TypeVar("T")
Record: TypeAlias = asyncpg.Record
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
DedicatedConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# Raised when the server is up but rejects the statement.
StatementError: TypeAlias = asyncpg.PostgresError

MAX_SCHEMAS = 200
"""Schemas that one connection may touch before it is replaced. A Postgres backend caches the catalogue of
every table it has used for as long as it lives: 70 KB for one agent's."""
MAX_QUERIES = 5_000
"""Queries after which a connection is replaced too: some work touches many schemas without
`transaction_in`."""
STATEMENT_TIMEOUT_S = 30.0
ACQUIRE_TIMEOUT_S = 5.0
GROW_AFTER_S = 0.02
"""A pool opens another connection only if somebody waits and none has become free within this time, and one
at a time. Each is a process of the server, which takes 10 ms of processor time to start, and megabytes;
without a pause, all that begins when a service starts would open one each."""
GROW_ANYWAY_AFTER = 5
"""Times `GROW_AFTER_S` for which somebody has waited without a break: then a pool grows, too."""
RETRY_AFTER_S = 2.0
# Raised by asyncpg when the server or the connection is lost or failing; InternalClientError in more than
# half of the measured kills.
_CONNECTION_ERRORS = (
    asyncpg.InternalClientError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    # Terminated by an operator, a shutdown or recovery; out of memory or files; a system error.
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    ConnectionError,
    TimeoutError,
    OSError,
)
_SERVER_REFUSALS = (
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DiskFullError,
    # The server has rolled the transaction back.
    asyncpg.DeadlockDetectedError,
)

_IS_READ_ONLY = """
SELECT current_setting('transaction_read_only')::boolean OR pg_catalog.pg_is_in_recovery()
"""
# Exceeds `work_mem`, so it writes a temporary file of some megabytes; no table grows.
_TEMP_FILE_QUERY = "SELECT count(*) FROM pg_catalog.generate_series(1, 200000)"


class ConnectionSetup(Protocol):
    """Preparation of each new connection of a pool, for example the registration of a type."""

    async def prepare(self, connection: DedicatedConnection) -> None: ...


class Database:
    """A pool of connections; open it with `async with`."""

    def __init__(
        self,
        dsn: str,
        password: str | None,
        *,
        size: int,
        application: str,
        setup: ConnectionSetup | None = None,
    ) -> None:
        self._dsn = dsn
        self._password = password
        self._size = size
        self._application = application
        self._setup = setup
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        # Permits are the connections that may be open, given in the order of requests.
        self._permits = asyncio.Semaphore(1)
        self._allowed = 1
        self._waiting = 0
        self._was_freed = False
        self._looks = 0
        self._growth: asyncio.TimerHandle | None = None
        self._was_full = False
        self._touched: dict[int, set[str]] = {}

    async def __aenter__(self) -> Self:
        """Open the pool; wait up to 30 s for a server that is still starting.

        Raises StartupError if the server does not come up or refuses the credentials.
        """
        self._pool = await self.wait_for_server(self._open)
        return self

    async def wait_for_server(self, connect: Callable[[], Awaitable[T]]) -> T:
        """Return what `connect` returns; repeat it for up to 30 s while the server is starting.

        Raises StartupError if the server does not come up or refuses the credentials.
        """
        try:
            async for attempt in stamina.retry_context(
                on=_CONNECTION_ERRORS + _SERVER_REFUSALS,
                attempts=None,
                timeout=30,
                wait_initial=0.05,
                wait_max=1,
            ):
                with attempt:
                    return await connect()
        except (*_CONNECTION_ERRORS, *_SERVER_REFUSALS, asyncpg.PostgresError) as error:
            raise StartupError(
                _(
                    "Cannot use Postgres at {dsn}: {error}. Check that it runs and that its password is the"
                    " one in the secrets."
                ).format(dsn=self._dsn, error=str(error) or type(error).__name__)
            ) from error
        raise AssertionError("retry_context returns or raises")

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
            reset=_skip_reset,
            server_settings={"application_name": self._application, "jit": "off"},
            connection_class=TypeCachingConnection,
        )

    @contextlib.asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[DedicatedConnection]:
        """Yield a dedicated connection without a statement timeout, for work of minutes.

        Raises Unavailable if none can be opened, OutcomeUnknown if it breaks while in use.
        """
        try:
            with preserve_cancellation():
                connection = await self.open_dedicated()
        except (*_CONNECTION_ERRORS, *_SERVER_REFUSALS) as error:
            raise _unreachable(error) from error
        try:
            with preserve_cancellation():
                yield connection
        except _CONNECTION_ERRORS as error:
            raise _broken(error) from error
        finally:
            connection.terminate()

    async def open_dedicated(self, **settings: str) -> DedicatedConnection:
        """Open a connection outside the pool, without a statement timeout. The caller closes it.

        `settings` are parameters of its session, such as `application_name`.
        """
        return await asyncpg.connect(
            self._dsn,
            password=self._password,
            timeout=ACQUIRE_TIMEOUT_S,
            command_timeout=None,
            connection_class=TypeCachingConnection,
            server_settings={"application_name": self._application, **settings},
        )

    async def __aexit__(self, *exc: object) -> None:
        """Close the pool."""
        await self.close()

    async def close(self) -> None:
        """Close the pool; connections still busy after two seconds are terminated."""
        if self._growth:
            self._growth.cancel()
        if self._pool:
            try:
                await _close_within(2, self._pool)
            finally:
                self._pool = None

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a pooled connection.

        Raises Unavailable if none can be acquired, OutcomeUnknown if it breaks while in use.
        """
        if self._pool is None:
            raise Unavailable(_("The database is not open: Choir is being stopped or started."))
        with preserve_cancellation():
            try:
                # asyncpg's own timeout would create a task
                async with asyncio.timeout(ACQUIRE_TIMEOUT_S):
                    await self._permit()
                    connection = await self._acquire(self._pool)
            except (*_CONNECTION_ERRORS, *_SERVER_REFUSALS) as error:
                raise _unreachable(error) from error
            try:
                yield connection
            except _SERVER_REFUSALS as error:
                self._was_full = self._was_full or isinstance(error, asyncpg.DiskFullError)
                raise _refused(error) from error
            except _CONNECTION_ERRORS as error:
                raise _broken(error) from error
            finally:
                try:
                    with contextlib.suppress(*_CONNECTION_ERRORS):
                        await self._pool.release(connection, timeout=ACQUIRE_TIMEOUT_S)
                finally:
                    self._was_freed = True
                    self._permits.release()

    async def _permit(self) -> None:
        """Wait until this caller may use a connection."""
        self._waiting += 1
        try:
            if self._permits.locked():
                self._grow_later()
            await self._permits.acquire()
        finally:
            self._waiting -= 1
            if not self._waiting and self._growth:
                self._growth.cancel()
                self._growth, self._looks = None, 0

    async def _acquire(self, pool: "asyncpg.Pool[asyncpg.Record]") -> Connection:
        try:
            return await pool.acquire()
        except BaseException:
            self._permits.release()
            raise

    def _grow_later(self) -> None:
        if self._growth is None and self._allowed < self._size:
            self._was_freed = False
            self._growth = asyncio.get_running_loop().call_later(GROW_AFTER_S, self._look)

    def _look(self) -> None:
        """Allow one more connection if that is due; the caller who has waited longest opens it."""
        self._growth = None
        self._looks += 1
        if not self._was_freed or self._looks >= GROW_ANYWAY_AFTER:
            self._looks = 0
            self._allowed += 1
            self._permits.release()
        self._grow_later()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection inside a transaction."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @contextlib.asynccontextmanager
    async def schema_transaction(self, schema: str, begin: str) -> AsyncIterator[Connection]:
        """Yield a transaction on one of many schemas; `begin` opens it in one round trip.

        A connection that has touched more than `MAX_SCHEMAS` schemas is closed afterwards.
        """
        async with self.connection() as connection:
            try:
                await connection.execute(begin)
                yield connection
            except BaseException:
                if not connection.is_closed():
                    await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")
            await self._close_if_overused(connection, schema)

    async def _close_if_overused(self, connection: Connection, schema: str) -> None:
        touched = self._touched[connection.get_server_pid()]
        touched.add(schema)
        if len(touched) > MAX_SCHEMAS:
            # The pool opens a new connection when it needs one.
            await connection.close()

    async def _prepare(self, opened: DedicatedConnection) -> None:
        server_pid = opened.get_server_pid()
        self._touched[server_pid] = set()

        def forget(_: object) -> None:
            # A closed connection no longer returns its pid.
            self._touched.pop(server_pid, None)

        opened.add_termination_listener(forget)
        if self._setup is not None:
            await self._setup.prepare(opened)

    async def expire_connections(self) -> None:
        """Replace each connection before its next use, so that new ones see new types."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def fetch(self, sql: str, *args: object) -> Sequence[asyncpg.Record]:
        """Return all rows of one statement."""
        async with self.connection() as connection:
            return await connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: object) -> asyncpg.Record | None:
        """Return the first row of one statement."""
        async with self.connection() as connection:
            return await connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        """Return the first column of the first row."""
        async with self.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: object) -> str:
        """Run one statement; return its command tag."""
        async with self.connection() as connection:
            return await connection.execute(sql, *args)

    async def write_failure(self) -> str | None:
        """Return why the database cannot be written now, or None if it can.

        Whether the disk is full is checked only after a statement has failed for that reason, until there
        is space.
        """
        try:
            if await self.fetchval(_IS_READ_ONLY):
                return _("the database is read-only")
        except Unavailable as error:
            return _("the database does not answer: {message}").format(message=error.message)
        if self._was_full and not await self._has_room():
            return _("the disk of the database is full")
        self._was_full = False
        return None

    async def _has_room(self) -> bool:
        try:
            async with self.transaction() as connection:
                await connection.execute("SET LOCAL work_mem = '64kB'")
                await connection.fetchval(_TEMP_FILE_QUERY)
        except Unavailable:
            return False
        return True

    async def is_reachable(self) -> bool:
        """Return whether the server responds."""
        try:
            return bool(await self.fetchval("SELECT 1") == 1)
        except Unavailable:
            return False


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Raise a failure of a dedicated connection or of its opening as OutcomeUnknown."""
    with preserve_cancellation():
        try:
            yield
        except (*_CONNECTION_ERRORS, *_SERVER_REFUSALS) as error:
            raise _broken(error) from error


def _unreachable(error: BaseException) -> Unavailable:
    log.info("database unreachable", error=repr(error))
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return Unavailable(_("The database has no free connection."), retry_after_s=RETRY_AFTER_S)
    if isinstance(error, asyncpg.CannotConnectNowError):
        why = _("it is starting or stopping")
    elif isinstance(error, TimeoutError):
        why = _("no connection was free within {acquire_timeout_s:g} s").format(
            acquire_timeout_s=ACQUIRE_TIMEOUT_S
        )
    else:
        why = _("no server responds there")
    return Unavailable(
        _("The database cannot be reached: {why}.").format(why=why), retry_after_s=RETRY_AFTER_S
    )


def _refused(error: BaseException) -> Unavailable:
    log.warning("database rejects statements", error=repr(error))
    match error:
        case asyncpg.DiskFullError():
            why = _("its disk is full")
        case asyncpg.ReadOnlySQLTransactionError():
            why = _("it is read-only")
        case asyncpg.TooManyConnectionsError():
            why = _("it has no free connection")
        case asyncpg.DeadlockDetectedError():
            why = _("two operations waited for each other")
        case _:
            why = _("it is starting or stopping")
    return Unavailable(
        _("The database rejects statements: {why}.").format(why=why), retry_after_s=RETRY_AFTER_S
    )


def _broken(error: BaseException) -> OutcomeUnknown:
    log.info("database connection lost", error=repr(error))
    if isinstance(error, TimeoutError):
        why = _("it did not respond in time")
    elif isinstance(error, asyncpg.InsufficientResourcesError | asyncpg.PostgresSystemError):
        why = _("it has an internal error; see its log")
    else:
        why = _("the connection was lost")
    return OutcomeUnknown(
        _(
            "The outcome of the database operation is unknown: {why}. It is safe to repeat it with the same"
            " key."
        ).format(why=why),
        retry_after_s=RETRY_AFTER_S,
    )


async def _skip_reset(_: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Skip the round trip that resets a session: no code here sets more than `SET LOCAL`."""


async def _close_within(seconds: float, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    try:
        await asyncio.wait_for(pool.close(), seconds)
    except TimeoutError:
        pool.terminate()

"""Advisory lock of the leader in Postgres, on a connection of its own.

Advisory locks belong to a database, so each installation has its own. The session that holds the lock has a
unique `application_name`, by which others see who leads.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from choir_common.postgres.pool import Connection, Database, DedicatedConnection, translate_errors

LOCK = (0x43484F49, 1)
"""Key of the lock: "CHOI", and a number for its purpose."""
STANDBY = "choir-control standby"
PROBE = "choir-control probe"
FENCE_WITHIN_MS = 5_000

_TRY = """
SELECT CASE WHEN pg_catalog.pg_try_advisory_lock($1, $2)
    THEN pg_catalog.set_config('application_name', $3, false) END
"""
_HOLDER = """
SELECT activity.application_name
FROM pg_catalog.pg_locks AS locks JOIN pg_catalog.pg_stat_activity AS activity USING (pid)
WHERE locks.locktype = 'advisory' AND locks.granted AND activity.datname = current_database()
    AND locks.database = activity.datid
    AND locks.classid = $1 AND locks.objid = $2 AND locks.objsubid = 2
"""
_END_SESSIONS = """
SELECT count(*) FILTER (WHERE pg_catalog.pg_terminate_backend(pid, $2))
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = $1
    AND pid <> pg_catalog.pg_backend_pid()
"""
_HAS_SESSION = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND application_name = $1)
"""
_BEGIN_TERM = """
INSERT INTO choir_control.leader_term AS old (term) VALUES (1)
ON CONFLICT (only_row) DO UPDATE SET term = old.term + 1 RETURNING term
"""


class LeaderLock:
    """The lock, and the connection that holds it or waits for it.

    Every method raises Unavailable when Postgres does not answer; `close` raises nothing.
    """

    def __init__(self, database: Database, *, service: str, silence_s: float) -> None:
        """`database` is not opened; `service` is the application name of the leader's other sessions."""
        self.name = f"{service} leader {secrets.token_hex(8)}"
        self._database = database
        self._service = service
        self._silence_ms = round(silence_s * 1000)
        self._connection: DedicatedConnection | None = None
        self._asking = asyncio.Lock()
        self.closed = asyncio.Event()
        """Set when the connection ends, until the next one is open."""

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection that is not known to be broken."""
        return self._connection is not None and not self._connection.is_closed()

    async def connect_at_start(self) -> None:
        """Connect; wait up to 30 s for a server that is starting. Raises StartupError."""
        self._use(await self._database.wait_for_server(self._open))

    async def connect(self) -> None:
        """Connect again."""
        self.drop()
        with translate_errors():
            self._use(await self._open())

    async def _open(self, name: str = STANDBY) -> DedicatedConnection:
        # Postgres ends a session that says nothing for so long, and frees its lock: a leader that is paused,
        # hangs or is cut off. TCP keepalives would not do: the kernel of a paused process answers them.
        return await self._database.open_dedicated(
            application_name=name, idle_session_timeout=str(self._silence_ms)
        )

    def _use(self, connection: DedicatedConnection) -> None:
        self._connection = connection
        self.closed.clear()
        connection.add_termination_listener(self._note_end)

    def _note_end(self, connection: object) -> None:
        if connection is self._connection:
            self.closed.set()

    async def try_take(self) -> bool:
        """Take the lock if it is free; return whether this session holds it now."""
        async with self._one_question() as session:
            return bool(await session.fetchval(_TRY, *LOCK, self.name))

    async def fence(self) -> int:
        """End the sessions of an earlier leader; return how many, once their statements have ended.

        The earlier leader cannot open new sessions, because `is_held` is false for it.
        """
        async with self._one_question() as session:
            count: int = await session.fetchval(_END_SESSIONS, self._service, FENCE_WITHIN_MS)
        return count

    async def begin_term(self) -> int:
        """Count this leader; return its number."""
        async with self._one_question() as session:
            term: int = await session.fetchval(_BEGIN_TERM)
        return term

    async def read_term(self) -> int:
        """Return the number of the newest leader."""
        async with self._one_question() as session:
            term: int = await session.fetchval("SELECT term FROM choir_control.leader_term")
        return term

    async def has_standby(self) -> bool:
        """Return whether another process waits for the lock."""
        async with self._one_question() as session:
            return bool(await session.fetchval(_HAS_SESSION, STANDBY))

    async def holder(self) -> str | None:
        """Return the name of the session that holds the lock, or None."""
        async with self._one_question() as session:
            return await _read_holder(session)

    async def ask_holder(self) -> str | None:
        """Return the same over a new connection, because that of the lock does not answer."""
        with translate_errors():
            connection = await self._open(PROBE)
            try:
                return await _read_holder(connection)
            finally:
                connection.terminate()

    async def end_own_session(self) -> None:
        """End an earlier session of this process that the server still takes for alive."""
        async with self._one_question() as session:
            await session.fetchval(_END_SESSIONS, self.name, FENCE_WITHIN_MS)

    async def is_held(self, connection: "Connection | DedicatedConnection") -> bool:
        """Return whether this process holds the lock now, as another of its connections sees it."""
        return await _read_holder(connection) == self.name

    def drop(self) -> None:
        """Close the connection without a word, which frees the lock."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @contextlib.asynccontextmanager
    async def _one_question(self) -> AsyncIterator[DedicatedConnection]:
        # a connection takes one question at a time, and the watch asks beside the start
        async with self._asking:
            with translate_errors():
                if self._connection is None:
                    raise ConnectionError("not connected")
                yield self._connection


async def _read_holder(connection: "Connection | DedicatedConnection") -> str | None:
    holder: str | None = await connection.fetchval(_HOLDER, *LOCK)
    return holder

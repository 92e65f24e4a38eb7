"""SQL statements of `schemas`, `backup` and `restore`."""

from dataclasses import dataclass

from choir_common.eventlog.chain import (
    LogHead,
    count_hashes,
    event_from_row,
    find_break,
    head_of,
    verify_hashes,
)
from choir_common.postgres.pool import Database
from choir_common.postgres.schema_state import SchemaState, read_state
from choir_common.wire.events import Event

PAGE = 500


@dataclass(frozen=True, slots=True)
class LogVerification:
    """Verification of one session's log; `reason` describes the first error, "" if there is none."""

    session_id: str
    events: int
    reason: str


class DatabaseStore:
    """Operations on one whole database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def agents(self) -> list[str]:
        """Return the agents that have a memory."""
        if not await self._has("choir_memory.spaces"):
            return []
        sql = "SELECT agent_id FROM choir_memory.spaces ORDER BY agent_id"
        return [row["agent_id"] for row in await self._database.fetch(sql)]

    async def state(self, schema: str) -> SchemaState:
        """Return the migration state of a schema."""
        async with self._database.connection() as connection:
            return await read_state(connection, schema)

    async def is_empty(self) -> bool:
        """Return whether there is no session and no memory."""
        for table in ("choir_control.sessions", "choir_memory.spaces"):
            if await self._has(table) and await self._database.fetchval(
                f"SELECT EXISTS (SELECT FROM {table})"  # noqa: S608 our own names
            ):
                return False
        return True

    async def roles(self) -> list[str]:
        """Return the roles of agents, which a dump refers to but does not contain."""
        sql = r"""SELECT rolname FROM pg_roles
                  WHERE rolname LIKE 'choir\_%' AND NOT rolcanlogin ORDER BY rolname"""
        return [row["rolname"] for row in await self._database.fetch(sql)]

    async def make_roles(self, roles: list[str]) -> None:
        """Create the missing roles that a dump refers to, without any privileges of their own."""
        rows = await self._database.fetch("SELECT rolname FROM pg_roles")
        existing_roles = {row["rolname"] for row in rows}
        async with self._database.transaction() as connection:
            for role in roles:
                if role not in existing_roles:
                    await connection.execute(
                        f'CREATE ROLE "{role}" NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT'
                    )
                    await connection.execute(f'GRANT "{role}" TO CURRENT_USER')

    async def make_database(self, name: str) -> None:
        """Create an empty database, replacing one that an earlier attempt left.

        The template is template1, which has pgvector. Its vector extension was created by a single-user
        server and so has the object number of a built-in object, which pg_dump leaves out.
        """
        await self.drop_database(name)
        await self._database.execute(f'CREATE DATABASE "{name}" TEMPLATE template1')

    async def drop_database(self, name: str) -> None:
        """Drop a database if it exists."""
        await self._database.execute(f'DROP DATABASE IF EXISTS "{name}"')

    async def has_database(self, name: str) -> bool:
        """Return whether a database exists."""
        sql = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
        return bool(await self._database.fetchval(sql, name))

    async def rename_into_place(self, name: str, new: str, aside: str) -> None:
        """Rename the database `new` to `name` and the old one to `aside`, in one transaction."""
        await self.drop_database(aside)
        async with self._database.transaction() as connection:
            await connection.execute(f'ALTER DATABASE "{name}" RENAME TO "{aside}"')
            await connection.execute(f'ALTER DATABASE "{new}" RENAME TO "{name}"')

    async def verify_logs(self) -> list[LogVerification]:
        """Verify the log of every session, from its first event to its head."""
        if not await self._has("choir_control.sessions"):
            return []
        rows = await self._database.fetch(
            "SELECT session_id, head_rev, head_hash FROM choir_control.sessions ORDER BY session_id"
        )
        return [
            await self._verify(row["session_id"], LogHead(row["head_rev"], row["head_hash"]))
            for row in rows
        ]

    async def _verify(self, session_id: str, head: LogHead) -> LogVerification:
        hashes = await self._hashes_of_erased(session_id)
        if hashes is not None:
            return LogVerification(session_id, count_hashes(hashes), verify_hashes(hashes, head))
        at, count = LogHead(), 0
        while page := await self._events(session_id, at.rev):
            broken = find_break(page, at)
            if broken is not None:
                return LogVerification(session_id, count, f"event {broken.rev}: {broken.reason}")
            count += len(page)
            at = head_of(page[-1])
        if at != head:
            return LogVerification(
                session_id, count, f"the log ends at {at.rev}, but its head is {head.rev}"
            )
        return LogVerification(session_id, count, "")

    async def _events(self, session_id: str, after: int) -> list[Event]:
        rows = await self._database.fetch(
            """SELECT rev, lane, type, payload, at, hash_prev, hash
               FROM choir_control.session_events WHERE session_id = $1 AND rev > $2
               ORDER BY rev LIMIT $3""",
            session_id,
            after,
            PAGE,
        )
        return [event_from_row(session_id, row) for row in rows]

    async def _hashes_of_erased(self, session_id: str) -> bytes | None:
        """Return the hashes of a log that retention erased, or None if the log is not erased."""
        table = "choir_control.erased_logs"
        if not await self._has(table):
            return None  # a backup of an older version
        sql = f"SELECT hashes FROM {table} WHERE session_id = $1"  # noqa: S608 our own name
        hashes: bytes | None = await self._database.fetchval(sql, session_id)
        return hashes

    async def _has(self, table: str) -> bool:
        return bool(await self._database.fetchval("SELECT to_regclass($1) IS NOT NULL", table))

"""The table `session_conversations`: the conversations that a session serves beside its home conversation."""

from choir_common.postgres.pool import Connection, Database
from choir_control.log.leases.store import acquire_leases

_UNFINISHED = "status IN ('starting', 'active', 'stopping', 'crashed')"
# A suspended session has no conversation: another agent may have one of them meanwhile.
_BOUND = f"s.{_UNFINISHED} AND NOT (s.status = 'crashed' AND s.end_reason IS NOT NULL)"


def conversations_sql(session: str) -> str:
    """Return an SQL array of a session's conversations; `session` is a row with `session_id` and `dm`."""
    return (
        f"ARRAY(SELECT {session}.dm UNION ALL "  # noqa: S608 our own SQL
        "SELECT c.dm FROM choir_control.session_conversations AS c "
        f"WHERE c.session_id = {session}.session_id)"
    )


def session_of_sql(dm: str) -> str:
    """Return an SQL subquery with the id of the session, if any, that has leased a conversation."""
    return (
        f"(SELECT s.session_id FROM choir_control.sessions AS s WHERE s.dm = {dm} AND {_BOUND} "  # noqa: S608 our own SQL
        "UNION ALL SELECT c.session_id FROM choir_control.session_conversations AS c "
        f"JOIN choir_control.sessions AS s USING (session_id) WHERE c.dm = {dm} AND {_BOUND} "
        "LIMIT 1)"
    )


async def lease_conversations(connection: Connection, session_id: str, agent_id: str) -> None:
    """Lease the further conversations of a session for its next epoch, in the caller's transaction.

    Raises Conflict if another session has one of them; the caller must then roll back.
    """
    rows = await connection.fetch(
        "SELECT dm FROM choir_control.session_conversations WHERE session_id = $1", session_id
    )
    if rows:
        resources = [f"dm:{row['dm']}" for row in rows]
        await acquire_leases(connection, session_id, agent_id, resources)


class ConversationStore:
    """Store of the table `session_conversations`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_homes(self) -> dict[str, str]:
        """Return the further conversations of all unfinished sessions, each with its home conversation."""
        rows = await self._database.fetch(
            "SELECT c.dm, s.dm AS home_dm FROM choir_control.session_conversations AS c "  # noqa: S608 our own SQL
            f"JOIN choir_control.sessions AS s USING (session_id) WHERE s.{_UNFINISHED}"
        )
        return {row["dm"]: row["home_dm"] for row in rows}

    async def bind(self, session_id: str, agent_id: str, dm: str, gateway: str) -> None:
        """Bind a running session to a further conversation and lease it.

        The waiting signals of the conversation get new numbers: the cursor of the session's stream may be
        beyond their old ones. Raises Conflict if another session has the conversation.
        """
        async with self._database.transaction() as connection:
            await acquire_leases(connection, session_id, agent_id, [f"dm:{dm}"])
            await connection.execute(
                "INSERT INTO choir_control.session_conversations (session_id, dm, gateway) "
                "VALUES ($1, $2, $3)",
                session_id,
                dm,
                gateway,
            )
            await connection.execute(
                """
                WITH waiting AS (
                    DELETE FROM choir_control.signals WHERE dm = $1 AND done_at IS NULL
                    RETURNING seq, dm, body, inbox_id, created_at
                )
                INSERT INTO choir_control.signals (dm, body, inbox_id, created_at)
                SELECT dm, body, inbox_id, created_at FROM waiting ORDER BY seq
                """,
                dm,
            )

    async def unbind(self, session_id: str, dm: str) -> None:
        """End a further conversation of a session and free it."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "DELETE FROM choir_control.session_conversations WHERE session_id = $1 AND dm = $2",
                session_id,
                dm,
            )
            await connection.execute(
                "DELETE FROM choir_control.leases WHERE session_id = $1 AND resource = $2",
                session_id,
                f"dm:{dm}",
            )

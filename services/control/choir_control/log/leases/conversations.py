"""The table `session_conversations`: the conversations that a session serves beside its home conversation."""

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_modes import INCOGNITO

_UNFINISHED = "status IN ('starting', 'active', 'stopping', 'crashed')"
# A suspended session has no conversation: another agent may have one of them meanwhile.
_BOUND = f"s.{_UNFINISHED} AND NOT (s.status = 'crashed' AND s.end_reason IS NOT NULL)"
# Returns the agent that has the resource already.
_LEASE = """
WITH leased AS (
    INSERT INTO choir_control.leases (resource, session_id, agent_id) VALUES ($1, $2, $3)
    ON CONFLICT (resource) DO NOTHING RETURNING resource
)
SELECT COALESCE((SELECT agent_id FROM choir_control.leases WHERE resource = $1), '?')
WHERE NOT EXISTS (SELECT FROM leased)
"""
_BIND = """
INSERT INTO choir_control.session_conversations (session_id, dm, gateway) VALUES ($1, $2, $3)
ON CONFLICT (session_id, dm) DO UPDATE
SET gateway = EXCLUDED.gateway, bound_at = clock_timestamp(), unbound_at = NULL
"""
# The settings of the session contain its conversations.
_NEW_SETTINGS = (
    "UPDATE choir_control.sessions SET settings_rev = settings_rev + 1 WHERE session_id = $1"
)
# The cursor of the session's stream may be beyond the numbers of signals that wait in the conversation.
_RENUMBER = """
WITH waiting AS (
    DELETE FROM choir_control.signals WHERE dm = $1 AND done_at IS NULL
    RETURNING seq, dm, body, inbox_id, created_at
)
INSERT INTO choir_control.signals (dm, body, inbox_id, created_at)
SELECT dm, body, inbox_id, created_at FROM waiting ORDER BY seq
"""
# A message that the session has taken up, or may have in its queue, and that has no answer yet.
_IS_BUSY = """
SELECT true FROM choir_control.inbox
WHERE dm = $2 AND closed_at IS NULL AND answered_rev IS NULL AND (session_id IS NULL OR session_id = $1)
LIMIT 1
"""
# Conversations that another session has leased meanwhile leave this one.
_LEASE_AGAIN = """
WITH leased AS (
    INSERT INTO choir_control.leases (resource, session_id, agent_id)
    SELECT 'dm:' || dm, $1, $2 FROM choir_control.session_conversations
    WHERE session_id = $1 AND unbound_at IS NULL ORDER BY dm
    ON CONFLICT (resource) DO NOTHING RETURNING resource
)
UPDATE choir_control.session_conversations SET unbound_at = clock_timestamp()
WHERE session_id = $1 AND unbound_at IS NULL AND 'dm:' || dm NOT IN (
    SELECT resource FROM leased UNION ALL SELECT resource FROM choir_control.leases WHERE session_id = $1)
"""


def conversations_sql(session: str) -> str:
    """Return an SQL array of a session's conversations; `session` is a row with `session_id` and `dm`."""
    return (
        f"ARRAY(SELECT {session}.dm UNION ALL "  # noqa: S608 our own SQL
        "SELECT c.dm FROM choir_control.session_conversations AS c "
        f"WHERE c.session_id = {session}.session_id AND c.unbound_at IS NULL)"
    )


def answered_conversations_sql(session: str) -> str:
    """Return the same with the conversations that have left the session, whose messages it may answer."""
    return (
        f"ARRAY(SELECT {session}.dm UNION ALL "  # noqa: S608 our own SQL
        "SELECT c.dm FROM choir_control.session_conversations AS c "
        f"WHERE c.session_id = {session}.session_id)"
    )


def served_conversations_sql(session: str) -> str:
    """Return an SQL array of all conversations that the sessions of a session's agent have ever served."""
    return (
        "ARRAY(SELECT a.dm FROM choir_control.sessions AS a "  # noqa: S608 our own SQL
        f"WHERE a.agent_id = {session}.agent_id UNION "
        "SELECT c.dm FROM choir_control.session_conversations AS c "
        "JOIN choir_control.sessions AS a USING (session_id) "
        f"WHERE a.agent_id = {session}.agent_id ORDER BY 1)"
    )


def gateway_sql(session: str, dm: str) -> str:
    """Return an SQL expression with the gateway of a conversation of a session."""
    return (
        f"CASE WHEN {dm} = {session}.dm THEN {session}.gateway ELSE COALESCE(("  # noqa: S608 our own SQL
        "SELECT c.gateway FROM choir_control.session_conversations AS c "
        f"WHERE c.session_id = {session}.session_id AND c.dm = {dm}), {session}.gateway) END"
    )


def session_of_sql(dm: str) -> str:
    """Return an SQL subquery with the id of the session, if any, that has leased a conversation."""
    return (
        f"(SELECT s.session_id FROM choir_control.sessions AS s WHERE s.dm = {dm} AND {_BOUND} "  # noqa: S608 our own SQL
        "UNION ALL SELECT c.session_id FROM choir_control.session_conversations AS c "
        f"JOIN choir_control.sessions AS s USING (session_id) WHERE c.dm = {dm} AND c.unbound_at IS NULL "
        f"AND {_BOUND} LIMIT 1)"
    )


async def lease_conversations(connection: Connection, session_id: str, agent_id: str) -> None:
    """Lease the further conversations of a session for its next epoch, in the caller's transaction.

    Those that another session has by now leave this one.
    """
    await connection.execute(_LEASE_AGAIN, session_id, agent_id)


class ConversationStore:
    """Store of the table `session_conversations`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_homes(self) -> dict[str, str]:
        """Return the bound further conversations of all sessions, each with its home conversation."""
        rows = await self._database.fetch(
            "SELECT c.dm, s.dm AS home_dm FROM choir_control.session_conversations AS c "  # noqa: S608 our own SQL
            f"JOIN choir_control.sessions AS s USING (session_id) WHERE c.unbound_at IS NULL AND {_BOUND}"
        )
        return {row["dm"]: row["home_dm"] for row in rows}

    async def list_bound(self, session_id: str) -> dict[str, str]:
        """Return the further conversations of a session, each with its gateway, sorted by name."""
        rows = await self._database.fetch(
            "SELECT dm, gateway FROM choir_control.session_conversations "
            "WHERE session_id = $1 AND unbound_at IS NULL ORDER BY dm",
            session_id,
        )
        return {row["dm"]: row["gateway"] for row in rows}

    async def list_served(self, session_ids: list[str]) -> dict[str, tuple[str, ...]]:
        """Return the further conversations of sessions; of an ended one, those that it had at its end."""
        rows = await self._database.fetch(
            "SELECT session_id, array_agg(dm ORDER BY dm) AS dms FROM choir_control.session_conversations "
            "WHERE session_id = ANY($1) AND unbound_at IS NULL GROUP BY session_id",
            session_ids,
        )
        return {row["session_id"]: tuple(row["dms"]) for row in rows}

    async def bind(self, session_id: str, agent_id: str, dm: str, gateway: str) -> None:
        """Bind a running session to a further conversation and lease it.

        Raises Conflict if another session has the conversation, or if the session is incognito or does not
        run.
        """
        async with self._database.transaction() as connection:
            mode = await connection.fetchval(
                "SELECT memory_mode FROM choir_control.sessions "
                "WHERE session_id = $1 AND status IN ('starting', 'active') FOR UPDATE",
                session_id,
            )
            if mode is None:
                raise Conflict(
                    _("{agent_id} does not run, so it is not bound to {dm}.").format(
                        agent_id=agent_id, dm=dm
                    )
                )
            if mode == INCOGNITO:
                raise Conflict(
                    _(
                        "{agent_id} is incognito and serves only its home conversation. {dm} is bound "
                        "when it leaves incognito (/memory local)."
                    ).format(agent_id=agent_id, dm=dm)
                )
            holder = await connection.fetchval(_LEASE, f"dm:{dm}", session_id, agent_id)
            if holder is not None:
                raise Conflict(
                    _(
                        "dm:{dm} is in use by agent {holder}. {agent_id} is bound to it when that agent is "
                        "stopped (`choirctl agent stop {holder}`)."
                    ).format(dm=dm, holder=holder, agent_id=agent_id)
                )
            await connection.execute(_BIND, session_id, dm, gateway)
            await connection.execute(_RENUMBER, dm)
            await connection.execute(_NEW_SETTINGS, session_id)

    async def refresh_settings(self, session_id: str) -> None:
        """Give the settings of a session a new version."""
        await self._database.execute(_NEW_SETTINGS, session_id)

    async def set_gateway(self, session_id: str, dm: str, gateway: str) -> None:
        """Store that the configuration has moved a further conversation to another gateway."""
        await self._database.execute(
            "UPDATE choir_control.session_conversations SET gateway = $3 WHERE session_id = $1 AND dm = $2",
            session_id,
            dm,
            gateway,
        )

    async def unbind(self, session_id: str, dm: str, *, only_if_idle: bool = False) -> bool:
        """End a further conversation of a session and free it.

        With `only_if_idle` nothing changes, and the result is False, while one of its messages is open: the
        agent may have read it.
        """
        async with self._database.transaction() as connection:
            if only_if_idle and await connection.fetchval(_IS_BUSY, session_id, dm):
                return False
            await connection.execute(
                "UPDATE choir_control.session_conversations SET unbound_at = clock_timestamp() "
                "WHERE session_id = $1 AND dm = $2 AND unbound_at IS NULL",
                session_id,
                dm,
            )
            await connection.execute(
                "DELETE FROM choir_control.leases WHERE session_id = $1 AND resource = $2",
                session_id,
                f"dm:{dm}",
            )
            await connection.execute(_NEW_SETTINGS, session_id)
        return True

    async def free_ended(self) -> int:
        """Free conversations that were bound while their session ended; return how many."""
        rows = await self._database.fetch(
            """
            DELETE FROM choir_control.leases AS l USING choir_control.sessions AS s
            WHERE s.session_id = l.session_id AND s.token_sha256 IS NULL AND starts_with(l.resource, 'dm:')
            RETURNING 1
            """
        )
        return len(rows)

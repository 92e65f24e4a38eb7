"""The tables `web_links` and `web_sessions`. Tokens are stored as hashes only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Database

_COLUMNS = "web_session_id, person, user_agent, created_at, last_used_at, expires_at"


@dataclass(frozen=True, slots=True)
class WebSession:
    """A browser that signed in."""

    web_session_id: str
    person: str | None
    """None: the operator."""
    user_agent: str
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RedeemedLink:
    """A one-time link that was used just now."""

    person: str | None


class WebSessionStore:
    """Store of one-time links and browser sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_link(self, digest: bytes, person: str | None, expires_at: datetime) -> None:
        """Store a link."""
        await self._database.execute(
            "INSERT INTO choir_control.web_links (digest, person, expires_at) VALUES ($1, $2, $3)",
            digest,
            person,
            expires_at,
        )

    async def redeem_link(self, digest: bytes, now: datetime) -> RedeemedLink | None:
        """Use a link up; return None for one that is unknown, used or expired."""
        row = await self._database.fetchrow(
            "DELETE FROM choir_control.web_links WHERE digest = $1 AND expires_at > $2 RETURNING person",
            digest,
            now,
        )
        return None if row is None else RedeemedLink(row["person"])

    async def add(self, session: WebSession, digest: bytes) -> None:
        """Store a session."""
        await self._database.execute(
            f"INSERT INTO choir_control.web_sessions ({_COLUMNS}, digest) "  # noqa: S608 - a constant
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            session.web_session_id,
            *(session.person, session.user_agent),
            *(session.created_at, session.last_used_at, session.expires_at),
            digest,
        )

    async def find(self, digest: bytes, now: datetime, used_since: datetime) -> WebSession | None:
        """Return the session of a token; None if it is unknown, expired, or unused since `used_since`."""
        row = await self._database.fetchrow(
            f"SELECT {_COLUMNS} FROM choir_control.web_sessions "  # noqa: S608 - a constant
            "WHERE digest = $1 AND expires_at > $2 AND last_used_at > $3",
            digest,
            now,
            used_since,
        )
        return None if row is None else WebSession(**row)

    async def mark_used(self, web_session_id: str, now: datetime) -> None:
        """Record that a session was used."""
        await self._database.execute(
            "UPDATE choir_control.web_sessions SET last_used_at = $2 WHERE web_session_id = $1",
            web_session_id,
            now,
        )

    async def list_live(self, now: datetime, used_since: datetime) -> list[WebSession]:
        """Return the sessions that are valid, the last used first."""
        rows = await self._database.fetch(
            f"SELECT {_COLUMNS} FROM choir_control.web_sessions "  # noqa: S608 - a constant
            "WHERE expires_at > $1 AND last_used_at > $2 ORDER BY last_used_at DESC, web_session_id",
            now,
            used_since,
        )
        return [WebSession(**row) for row in rows]

    async def delete(self, web_session_id: str) -> bool:
        """Delete a session; return False if there is none."""
        deleted = await self._database.fetchval(
            "DELETE FROM choir_control.web_sessions WHERE web_session_id = $1 RETURNING true",
            web_session_id,
        )
        return bool(deleted)

    async def count_of(self, person: str) -> dict[str, int]:
        """Return the number of a person's rows by table, without tables that have none."""
        row = await self._database.fetchrow(
            "SELECT (SELECT count(*) FROM choir_control.web_links WHERE person = $1) AS web_links, "
            "(SELECT count(*) FROM choir_control.web_sessions WHERE person = $1) AS web_sessions",
            person,
        )
        return {table: int(count) for table, count in dict(row or {}).items() if count}

    async def delete_of(self, person: str) -> list[str]:
        """Delete a person's links and sessions; return the ids of the sessions."""
        # the links first, so that none opens a session that is not deleted below
        await self._database.execute(
            "DELETE FROM choir_control.web_links WHERE person = $1", person
        )
        rows = await self._database.fetch(
            "DELETE FROM choir_control.web_sessions WHERE person = $1 RETURNING web_session_id",
            person,
        )
        return [str(row["web_session_id"]) for row in rows]

    async def delete_expired(
        self, now: datetime, used_since: datetime, people: Sequence[str]
    ) -> None:
        """Delete links and sessions that have expired, or whose person is not one of `people`."""
        await self._database.execute(
            "DELETE FROM choir_control.web_links WHERE expires_at <= $1 "
            "OR person IS NOT NULL AND NOT person = ANY($2)",
            now,
            people,
        )
        await self._database.execute(
            "DELETE FROM choir_control.web_sessions WHERE expires_at <= $1 OR last_used_at <= $2 "
            "OR person IS NOT NULL AND NOT person = ANY($3)",
            now,
            used_since,
            people,
        )

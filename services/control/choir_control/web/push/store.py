"""The tables `web_push_subscriptions` and `web_push_key`.

A subscription is deleted with its browser session, by a foreign key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Database


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """Where and how one browser is notified."""

    web_session_id: str
    person: str | None
    """The person of the session; None: the operator."""
    endpoint: str
    p256dh: bytes
    auth: bytes


class PushStore:
    """Store of subscriptions, and of the key of this Choir."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._puts = 0
        self._empty_after: int | None = None
        """How many `put`s there had been when the table was found empty: spares a query for each message."""

    async def read_or_add_key(self, new: bytes) -> bytes:
        """Return the private key; `new` becomes it if there is none yet."""
        await self._database.execute(
            "INSERT INTO choir_control.web_push_key (only_row, private_key) VALUES (true, $1) "
            "ON CONFLICT DO NOTHING",
            new,
        )
        return bytes(
            await self._database.fetchval("SELECT private_key FROM choir_control.web_push_key")
        )

    async def put(self, web_session_id: str, endpoint: str, p256dh: bytes, auth: bytes) -> bool:
        """Store the one subscription of a session; return False if the session has ended.

        A browser that signed in again has the same endpoint: its earlier session loses it.
        """
        try:
            return await self._put(web_session_id, endpoint, p256dh, auth)
        finally:
            self._puts += 1

    async def _put(self, web_session_id: str, endpoint: str, p256dh: bytes, auth: bytes) -> bool:
        async with self._database.transaction() as connection:
            await connection.execute(
                "DELETE FROM choir_control.web_push_subscriptions "
                "WHERE web_session_id = $1 OR endpoint = $2",
                web_session_id,
                endpoint,
            )
            has_session = await connection.fetchval(
                "INSERT INTO choir_control.web_push_subscriptions "
                "(web_session_id, endpoint, p256dh, auth) "
                "SELECT web_session_id, $2, $3, $4 FROM choir_control.web_sessions "
                "WHERE web_session_id = $1 FOR UPDATE RETURNING true",
                web_session_id,
                endpoint,
                p256dh,
                auth,
            )
        return bool(has_session)

    async def exists(self, web_session_id: str) -> bool:
        """Return whether a session has a subscription."""
        return bool(
            await self._database.fetchval(
                "SELECT true FROM choir_control.web_push_subscriptions WHERE web_session_id = $1",
                web_session_id,
            )
        )

    async def delete(self, web_session_id: str, endpoint: str | None = None) -> None:
        """Delete the subscription of a session; with `endpoint`, unless it has another one by now."""
        await self._database.execute(
            "DELETE FROM choir_control.web_push_subscriptions "
            "WHERE web_session_id = $1 AND ($2::text IS NULL OR endpoint = $2)",
            web_session_id,
            endpoint,
        )

    async def list_live(self, now: datetime, used_since: datetime) -> Sequence[PushSubscription]:
        """Return the subscriptions of sessions that are valid."""
        puts = self._puts
        if self._empty_after == puts:
            return []
        rows = await self._database.fetch(
            "SELECT expires_at > $1 AND last_used_at > $2 AS is_valid, "
            "web_session_id, person, endpoint, p256dh, auth "
            "FROM choir_control.web_push_subscriptions JOIN choir_control.web_sessions "
            "USING (web_session_id) ORDER BY web_session_id",
            now,
            used_since,
        )
        self._empty_after = None if rows else puts
        return [PushSubscription(*subscription) for is_valid, *subscription in rows if is_valid]

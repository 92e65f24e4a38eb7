"""The tables `pairing_requests` and `paired_users`."""

from datetime import datetime

from choir_common.postgres.pool import Database
from choir_control.configuration.pairing import PairedUser
from choir_control.conversations.pairing.codes import WaitingUser

_PAIRED = "dm, gateway, user_id, channel_type, agent_id, role, user_name, approved_by, approved_at"
_WAITING = "gateway, user_id, dm, user_name, code, expires_at"


class PairingStore:
    """Store of users who wait, and of paired users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete_expired(self, now: datetime) -> None:
        """Delete the requests whose time is over."""
        await self._database.execute(
            "DELETE FROM choir_control.pairing_requests WHERE expires_at <= $1", now
        )

    async def add(self, user: WaitingUser, limit: int) -> bool:
        """Store a request; return False if the user has one, or the gateway has `limit`."""
        added = await self._database.fetchval(
            f"""
            INSERT INTO choir_control.pairing_requests ({_WAITING})
            SELECT $1, $2, $3, $4, $5, $6
            WHERE (SELECT count(*) FROM choir_control.pairing_requests WHERE gateway = $1) < $7
            ON CONFLICT DO NOTHING RETURNING true
            """,  # noqa: S608 - a constant
            *(user.gateway, user.user_id, user.dm, user.user_name, user.code, user.expires_at),
            limit,
        )
        return bool(added)

    async def list_waiting(self, now: datetime) -> list[WaitingUser]:
        """Return the users who wait for a decision, the oldest first."""
        rows = await self._database.fetch(
            f"SELECT {_WAITING} FROM choir_control.pairing_requests "  # noqa: S608 - a constant
            "WHERE NOT denied AND expires_at > $1 ORDER BY expires_at, user_id",
            now,
        )
        return [WaitingUser(**row) for row in rows]

    async def deny(self, user: WaitingUser) -> None:
        """Refuse a request."""
        await self._database.execute(
            "UPDATE choir_control.pairing_requests SET denied = true WHERE gateway = $1 AND user_id = $2",
            user.gateway,
            user.user_id,
        )

    async def approve(self, user: PairedUser) -> None:
        """Store a paired user in place of the request."""
        await self._database.execute(
            f"""
            WITH decided AS (
                DELETE FROM choir_control.pairing_requests WHERE gateway = $2 AND user_id = $3
            )
            INSERT INTO choir_control.paired_users ({_PAIRED})
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (gateway, user_id) DO UPDATE
            SET channel_type = $4, agent_id = $5, role = $6, user_name = $7, approved_by = $8,
                approved_at = $9
            """,  # noqa: S608 - a constant
            *(user.dm, user.gateway, user.user_id, user.channel_type, user.agent_id, user.role),
            *(user.user_name, user.approved_by, user.approved_at),
        )

    async def read_paired(self) -> tuple[PairedUser, ...]:
        """Return all paired users, sorted by the name of their conversation."""
        rows = await self._database.fetch(
            f'SELECT {_PAIRED} FROM choir_control.paired_users ORDER BY dm COLLATE "C"'  # noqa: S608
        )
        return tuple(PairedUser(**row) for row in rows)

    async def unpair(self, dm: str) -> bool:
        """Delete a paired user; return False if there is none."""
        removed = await self._database.fetchval(
            "DELETE FROM choir_control.paired_users WHERE dm = $1 RETURNING true", dm
        )
        return bool(removed)

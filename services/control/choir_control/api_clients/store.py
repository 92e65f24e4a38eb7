"""The table `api_clients`."""

from datetime import datetime

from choir_common.postgres.pool import Database, Record
from choir_control.configuration.api_clients import ApiClient

_COLUMNS = "name, digest, person, agents, scopes, created_at, last_used_at, revoked_at"


class ApiClientStore:
    """Store of clients."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> tuple[ApiClient, ...]:
        """Return all clients by name, also the revoked ones."""
        rows = await self._database.fetch(
            f'SELECT {_COLUMNS} FROM choir_control.api_clients ORDER BY name COLLATE "C"'  # noqa: S608
        )
        return tuple(_client(row) for row in rows)

    async def put(self, client: ApiClient) -> None:
        """Store a client; one of the same name is replaced."""
        await self._database.execute(
            f"""
            INSERT INTO choir_control.api_clients ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, NULL, NULL)
            ON CONFLICT (name) DO UPDATE
            SET digest = $2, person = $3, agents = $4, scopes = $5, created_at = $6,
                last_used_at = NULL, revoked_at = NULL
            """,  # noqa: S608 - a constant
            *(client.name, client.digest, client.person),
            *(list(client.agents), list(client.scopes), client.created_at),
        )

    async def mark_used(self, name: str, now: datetime) -> None:
        """Record that a client was used."""
        await self._database.execute(
            "UPDATE choir_control.api_clients SET last_used_at = $2 WHERE name = $1", name, now
        )

    async def revoke(self, name: str, now: datetime) -> bool:
        """Revoke a client; return False if there is none, or if it was revoked before."""
        revoked = await self._database.fetchval(
            "UPDATE choir_control.api_clients SET revoked_at = $2 "
            "WHERE name = $1 AND revoked_at IS NULL RETURNING true",
            name,
            now,
        )
        return bool(revoked)


def _client(row: Record) -> ApiClient:
    lists = {"agents": tuple(row["agents"]), "scopes": tuple(row["scopes"])}
    return ApiClient(**{**dict(row), **lists})

"""Version numbers and contents of all configurations that were ever in force."""

from typing import Literal

from choir_common.postgres.pool import Database

Reason = Literal["start", "config", "secrets", "pairing", "clients"]


class ConfigVersionStore:
    """Store of the table `config_versions`; its newest row is the configuration in force."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store_version(self, digest: str, body: str, reason: Reason = "start") -> int:
        """Return the version of the configuration with this digest; a new one gets the next number.

        The row is the commit of an apply: the configuration is in force once it exists. Safe to
        repeat after an unknown outcome, because the same digest returns the same number.
        """
        version = await self._database.fetchval(
            """
            WITH newest AS (
                SELECT version, digest, body IS NOT NULL AS kept FROM choir_control.config_versions
                ORDER BY version DESC LIMIT 1
            ), added AS (
                INSERT INTO choir_control.config_versions (digest, body, reason)
                SELECT $1, $2::json, $3
                WHERE NOT EXISTS (SELECT 1 FROM newest WHERE digest = $1 AND kept)
                RETURNING version
            )
            SELECT COALESCE((SELECT version FROM added), (SELECT version FROM newest))
            """,
            digest,
            body,
            reason,
        )
        return int(version)

    async def store_new_version(self, digest: str, body: str, reason: Reason) -> int:
        """Give an unchanged configuration the next version, because a secret that it names has changed."""
        version = await self._database.fetchval(
            """
            INSERT INTO choir_control.config_versions (digest, body, reason)
            VALUES ($1, $2::json, $3) RETURNING version
            """,
            digest,
            body,
            reason,
        )
        return int(version)

    async def last_body(self) -> str | None:
        """Return the JSON text of the newest stored configuration, or None."""
        body = await self._database.fetchval(
            """
            SELECT body::text FROM choir_control.config_versions
            WHERE body IS NOT NULL ORDER BY version DESC LIMIT 1
            """
        )
        return None if body is None else str(body)

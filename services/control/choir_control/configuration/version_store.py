"""Number the configurations that were ever in force, and keep what they said. Called by `current`."""

from typing import Literal

from choir_common.postgres.pool import Database

Reason = Literal["start", "config", "secrets"]


class ConfigVersionStore:
    """The table `config_versions`; its newest row is the one in force."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def version_of(self, digest: str, body: str, reason: Reason = "start") -> int:
        """Return the number of the configuration with this digest, the next one if it is new.

        The row is the commit of an apply: with it the configuration is in force, without it nothing
        has happened. Asked again after an unknown outcome it returns the same number.
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

    async def next_version(self, digest: str, body: str, reason: Reason) -> int:
        """Number the same configuration anew: something it names has changed."""
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
        """Return what the newest configuration said, none if none was kept."""
        found = await self._database.fetchval(
            """
            SELECT body::text FROM choir_control.config_versions
            WHERE body IS NOT NULL ORDER BY version DESC LIMIT 1
            """
        )
        return None if found is None else str(found)

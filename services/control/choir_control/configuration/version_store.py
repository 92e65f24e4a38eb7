"""Number the configurations that were ever in force. Called by `current`."""

from choir_common.postgres.pool import Database


class ConfigVersionStore:
    """The table `config_versions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def version_of(self, digest: str) -> int:
        """Return the number of the configuration with this digest, the next one if it is new."""
        version = await self._database.fetchval(
            """
            WITH newest AS (
                SELECT version, digest FROM choir_control.config_versions
                ORDER BY version DESC LIMIT 1
            ), added AS (
                INSERT INTO choir_control.config_versions (digest)
                SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM newest WHERE digest = $1)
                RETURNING version
            )
            SELECT COALESCE((SELECT version FROM added), (SELECT version FROM newest))
            """,
            digest,
        )
        return int(version)

"""The table `conversation_followers`."""

from choir_common.postgres.pool import Database


class FollowerStore:
    """Store of the conversations that follow others."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> frozenset[str]:
        """Return the names of all."""
        rows = await self._database.fetch("SELECT dm FROM choir_control.conversation_followers")
        return frozenset(row["dm"] for row in rows)

    async def set(self, dm: str, on: bool) -> None:
        """Add or remove a conversation; adding it again changes nothing."""
        await self._database.execute(
            "INSERT INTO choir_control.conversation_followers (dm) VALUES ($1) ON CONFLICT DO NOTHING"
            if on
            else "DELETE FROM choir_control.conversation_followers WHERE dm = $1",
            dm,
        )

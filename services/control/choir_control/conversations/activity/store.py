"""Store of the message id of each progress card. Used by `ActivityPublisher`."""

from datetime import timedelta

from choir_common.postgres.pool import Database
from choir_common.wire.activity import CardMessage


class CardStore:
    """Store of the table `channel_messages`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def upsert(self, card: CardMessage) -> None:
        """Store which message shows a card."""
        await self._database.execute(
            """
            INSERT INTO choir_control.channel_messages (dm, card_id, message_id)
            VALUES ($1, $2, $3)
            ON CONFLICT (dm, card_id) DO UPDATE SET message_id = EXCLUDED.message_id, kept_at = now()
            """,
            card.dm,
            card.card_id,
            card.message_id,
        )

    async def find(self, dm: str, card_id: str) -> str | None:
        """Return the message that shows a card, or None."""
        found = await self._database.fetchval(
            "SELECT message_id FROM choir_control.channel_messages WHERE dm = $1 AND card_id = $2",
            dm,
            card_id,
        )
        return None if found is None else str(found)

    async def prune(self, older_than: timedelta) -> None:
        """Delete the entries that were not updated within `older_than`."""
        await self._database.execute(
            "DELETE FROM choir_control.channel_messages WHERE kept_at < now() - $1::interval",
            older_than,
        )

"""Sends a message of Choir itself that no other change in the database belongs to."""

from choir_common.postgres.pool import Database
from choir_control.conversations.outbox.worker import OutboxWorker


class NoticeSender:
    """Sender of such notices."""

    def __init__(self, database: Database, outbox: OutboxWorker) -> None:
        self._database = database
        self._outbox = outbox

    async def send(self, dm: str, gateway: str, text: str) -> None:
        """Store a notice for a conversation; it is delivered soon. Raises Unavailable."""
        await self._database.fetchval("SELECT choir_control.say($1, $2, $3)", dm, gateway, text)
        self._outbox.rescan(dm)

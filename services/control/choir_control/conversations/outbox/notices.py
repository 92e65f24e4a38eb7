"""Sends a message of Choir itself that no other change in the database belongs to."""

from collections.abc import Sequence

import orjson

from choir_common.postgres.pool import Database
from choir_common.wire.attachments import Button
from choir_control.configuration.current import ConfigService
from choir_control.conversations.outbox.worker import OutboxWorker


class NoticeSender:
    """Sender of such notices."""

    def __init__(
        self, database: Database, outbox: OutboxWorker, configuration: ConfigService
    ) -> None:
        self._database = database
        self._configuration = configuration
        self._outbox = outbox

    async def send(self, dm: str, gateway: str, text: str, buttons: Sequence[Button] = ()) -> None:
        """Store a notice in the language of a conversation; it is delivered soon. Raises Unavailable."""
        pressed = orjson.dumps([it.model_dump() for it in buttons]).decode() if buttons else None
        await self._database.fetchval(
            "SELECT choir_control.say_with($1, $2, $3, $4::json, NULL)",
            dm,
            gateway,
            self._configuration.translate(dm, text),
            pressed,
        )
        self._outbox.rescan(dm)

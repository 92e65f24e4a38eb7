"""The table `outbox`: reads and state changes. Appends and the SQL function `say` insert the
rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from choir_common.postgres.pool import Database, Record
from choir_common.wire.attachments import Button
from choir_common.wire.messages import (
    DeliveryProgress,
    DeliveryReceipt,
    EditTarget,
    OutboundHistory,
    OutboundMessage,
)
from choir_control.workspaces.spool import make_attachments, parse_files

_COLUMNS = """outbox_id, dm, gateway, agent_id, session_id, rev, kind, told.text, answers, at, maybe_repeated,
    files, told.buttons, edits, (SELECT first.message_id FROM choir_control.outbox AS first
                            WHERE first.outbox_id = told.edits) AS first_message_id"""
_FROM = "FROM choir_control.outbox AS told"

_SENDING = """
UPDATE choir_control.outbox AS told
SET status = 'sending', attempts = attempts + 1, maybe_repeated = $2
WHERE outbox_id = $1 AND status IN ('waiting', 'sending')
RETURNING parcels, message_id, (
    SELECT asked.message_id FROM choir_control.inbox AS asked
    WHERE asked.inbox_id = told.answers AND ($3 OR EXISTS (
        SELECT FROM choir_control.inbox AS later
        WHERE later.dm = asked.dm AND later.seq > asked.seq
          AND later.message_id IS DISTINCT FROM asked.message_id))) AS reply_to
"""

_BUTTONS: TypeAdapter[tuple[Button, ...]] = TypeAdapter(tuple[Button, ...])


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """The progress and the reply target of a message, as stored when an attempt starts."""

    partly_sent: DeliveryProgress | None
    reply_to: str | None


class OutboxStore:
    """Store of the table `outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_open_dms(self) -> list[str]:
        """Return the DMs with undelivered messages."""
        rows = await self._database.fetch(
            "SELECT DISTINCT dm FROM choir_control.outbox WHERE status IN ('waiting', 'sending')"
        )
        return [row["dm"] for row in rows]

    async def list_open(self, dm: str, limit: int) -> list[OutboundMessage]:
        """Return undelivered messages, oldest first; those left in `sending` are marked maybe_repeated."""
        rows = await self._database.fetch(
            f"""
            SELECT {_COLUMNS}, status {_FROM}
            WHERE dm = $1 AND status IN ('waiting', 'sending') ORDER BY outbox_id LIMIT $2
            """,
            dm,
            limit,
        )
        return [_message(row, row["maybe_repeated"] or row["status"] == "sending") for row in rows]

    async def mark_sending(
        self, outbox_id: int, maybe_repeated: bool, *, is_group: bool = False
    ) -> DeliveryState | None:
        """Store, before the attempt, that the message may be sent from now on.

        Returns None if its row is closed or gone: an erasure cancelled it. In a group an answer always
        replies to its question; else only if newer messages have arrived since.
        """
        row = await self._database.fetchrow(_SENDING, outbox_id, maybe_repeated, is_group)
        if row is None:
            return None
        parcels, message_id = row["parcels"], row["message_id"]
        progress = None
        if parcels:
            progress = DeliveryProgress(outbox_id=outbox_id, parcels=parcels, message_id=message_id)
        return DeliveryState(partly_sent=progress, reply_to=row["reply_to"])

    async def store_progress(self, progress: DeliveryProgress) -> None:
        """Store how many parts of a message have arrived; the number never decreases."""
        await self._database.execute(
            """
            UPDATE choir_control.outbox SET parcels = $2, message_id = $3
            WHERE outbox_id = $1 AND status = 'sending' AND parcels < $2
            """,
            progress.outbox_id,
            progress.parcels,
            progress.message_id,
        )

    async def mark_not_sent(self, outbox_id: int, maybe_repeated: bool, detail: str) -> None:
        """Store that the attempt sent nothing."""
        await self._database.execute(
            """
            UPDATE choir_control.outbox
            SET status = 'waiting', maybe_repeated = $2, detail = $3
            WHERE outbox_id = $1 AND status = 'sending'
            """,
            outbox_id,
            maybe_repeated,
            detail,
        )

    async def store_receipt(self, receipt: DeliveryReceipt) -> None:
        """Close a row and store the channel's id of the message."""
        await self._database.execute(
            """
            UPDATE choir_control.outbox
            SET status = $2, detail = $3, message_id = $4, finished_at = now()
            WHERE outbox_id = $1 AND status IN ('waiting', 'sending')
            """,
            receipt.outbox_id,
            receipt.status,
            receipt.detail,
            receipt.message_id,
        )

    async def read_message_id(self, outbox_id: int) -> str | None:
        """Return the channel's id of a delivered message, or None."""
        message_id = await self._database.fetchval(
            "SELECT message_id FROM choir_control.outbox WHERE outbox_id = $1",
            outbox_id,
        )
        return None if message_id is None else str(message_id)

    async def read_history(self, dm: str, after: int, limit: int) -> OutboundHistory:
        """Return a DM's messages after an id, oldest first, delivered or not."""
        rows = await self._database.fetch(
            f"""
            SELECT {_COLUMNS} {_FROM}
            WHERE dm = $1 AND outbox_id > $2 ORDER BY outbox_id LIMIT $3
            """,
            dm,
            after,
            limit,
        )
        last = await self.read_newest_id(dm)
        messages = tuple(_message(row, row["maybe_repeated"]) for row in rows)
        return OutboundHistory(messages=messages, last=last)

    async def read_newest_versions(self, outbox_ids: Sequence[int]) -> dict[int, OutboundMessage]:
        """Return messages by id, each with the text and the buttons of its newest edit."""
        rows = await self._database.fetch(
            f"""
            SELECT {_COLUMNS}, newest.text AS newest_text, newest.buttons AS newest_buttons {_FROM}
            LEFT JOIN LATERAL (
                SELECT edit.text, COALESCE(edit.buttons, '[]'::json) AS buttons
                FROM choir_control.outbox AS edit
                WHERE edit.edits = told.outbox_id ORDER BY edit.outbox_id DESC LIMIT 1
            ) AS newest ON true
            WHERE outbox_id = ANY($1)
            """,  # noqa: S608 - constants
            list(outbox_ids),
        )
        messages = {row["outbox_id"]: _message(row, row["maybe_repeated"]) for row in rows}
        for row in rows:
            if row["newest_text"] is not None:
                edited = {
                    "text": row["newest_text"],
                    "buttons": _BUTTONS.validate_json(row["newest_buttons"]),
                }
                first = messages[row["outbox_id"]]
                messages[row["outbox_id"]] = first.model_copy(update=edited)
        return messages

    async def read_newest_ids(self, dms: Sequence[str]) -> dict[str, int]:
        """Return the id of the newest message of each DM; 0 without messages."""
        rows = await self._database.fetch(
            """
            SELECT dm, COALESCE((SELECT max(o.outbox_id) FROM choir_control.outbox AS o
                                 WHERE o.dm = named.dm), 0) AS newest
            FROM unnest($1::text[]) AS named(dm)
            """,
            list(dms),
        )
        return {row["dm"]: row["newest"] for row in rows}

    async def read_trace(self, inbox_id: str) -> str | None:
        """Return the trace context of a user's message while its signal is stored."""
        traceparent = await self._database.fetchval(
            "SELECT body ->> 'traceparent' FROM choir_control.signals WHERE inbox_id = $1",
            inbox_id,
        )
        return None if traceparent is None else str(traceparent)

    async def read_newest_id(self, dm: str) -> int:
        """Return the id of a DM's newest message, or 0."""
        newest_id = await self._database.fetchval(
            "SELECT COALESCE(max(outbox_id), 0) FROM choir_control.outbox WHERE dm = $1",
            dm,
        )
        return int(newest_id)


def _message(row: Record, maybe_repeated: bool) -> OutboundMessage:
    return OutboundMessage(
        outbox_id=row["outbox_id"],
        dm=row["dm"],
        gateway=row["gateway"],
        agent_id=row["agent_id"],
        session_id=row["session_id"],
        rev=row["rev"],
        kind=row["kind"],
        text=row["text"],
        answers=row["answers"],
        at=row["at"],
        maybe_repeated=maybe_repeated,
        attachments=make_attachments(parse_files(row["files"])),
        buttons=_BUTTONS.validate_json(row["buttons"] or "[]"),
        edits=EditTarget(outbox_id=row["edits"], message_id=row["first_message_id"])
        if row["edits"]
        else None,
    )

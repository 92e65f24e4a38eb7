"""Store of the table `operations`."""

from dataclasses import dataclass

import orjson

from choir_common.i18n import ENGLISH
from choir_common.postgres.pool import Database, Record
from choir_common.wire.model import JsonObject
from choir_common.wire.operations import OperationStatus, OperationView

_COLUMNS = """operation_id, kind, subject, status, step, error, error_code, result, began_at,
    ended_at"""


@dataclass(frozen=True, slots=True)
class Requester:
    """The conversation that started an operation."""

    dm: str
    gateway: str
    language: str = ENGLISH
    """In which it is told the outcome."""


def operation_view(record: Record) -> OperationView:
    """Convert a row to the operator API's view."""
    result = record["result"]
    return OperationView(
        operation_id=record["operation_id"],
        kind=record["kind"],
        subject=record["subject"],
        status=record["status"],
        step=record["step"],
        share=1.0 if record["status"] == "succeeded" else None,
        error=record["error"],
        error_code=record["error_code"],
        result=orjson.loads(result) if isinstance(result, str | bytes) else result,
        began_at=record["began_at"],
        ended_at=record["ended_at"],
    )


@dataclass(frozen=True, slots=True)
class InterruptedOperation:
    """An operation that was interrupted by the exit of an earlier choird."""

    operation_id: str
    kind: str
    dm: str | None
    """The conversation that was notified, if any."""
    has_card: bool


class OperationStore:
    """Store of the table `operations`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(
        self, operation_id: str, kind: str, subject: str, asker: Requester | None, *, has_card: bool
    ) -> OperationView:
        """Insert a running operation with the conversation that started it, if any."""
        row = await self._database.fetchrow(
            f"""
            INSERT INTO choir_control.operations
                (operation_id, kind, subject, dm, gateway, has_card)
            VALUES ($1, $2, $3, $4, $5, $6) RETURNING {_COLUMNS}
            """,  # noqa: S608 our own column names
            operation_id,
            kind,
            subject,
            asker and asker.dm,
            asker and asker.gateway,
            has_card,
        )
        assert row is not None
        return operation_view(row)

    async def set_requester(self, operation_id: str, asker: Requester) -> bool:
        """Make a conversation receive the outcome; return False if the operation has ended already."""
        operation_row = await self._database.fetchval(
            """
            UPDATE choir_control.operations SET dm = $2, gateway = $3
            WHERE operation_id = $1 AND status = 'running' RETURNING operation_id
            """,
            operation_id,
            asker.dm,
            asker.gateway,
        )
        return operation_row is not None

    async def store_outcome(
        self,
        operation_id: str,
        status: OperationStatus,
        step: str,
        error: tuple[str, str] | None,
        result: JsonObject | None,
        text: str,
    ) -> str | None:
        """Store the outcome once and queue `words` for the conversation; return that conversation's DM.

        `error` is its code and its message.
        """
        dm = await self._database.fetchval(
            """
            WITH ended AS (
                UPDATE choir_control.operations
                SET status = $2, step = $3, error_code = $4, error = $5, result = $6::json,
                    ended_at = clock_timestamp()
                WHERE operation_id = $1 AND status = 'running' RETURNING dm, gateway
            )
            SELECT choir_control.say(dm, gateway, $7) FROM ended WHERE dm IS NOT NULL
            """,
            operation_id,
            status,
            step[:1_000],
            error[0] if error else None,
            error[1] if error else None,
            orjson.dumps(result).decode() if result is not None else None,
            text,
        )
        return None if dm is None else str(dm)

    async def mark_interrupted(self) -> list[InterruptedOperation]:
        """Mark all running operations as interrupted and notify their conversations; return them."""
        rows = await self._database.fetch(
            """
            WITH cut AS (
                UPDATE choir_control.operations
                SET status = 'interrupted', ended_at = clock_timestamp(),
                    error = 'choird ended before it was done; nothing is half done, start it again'
                WHERE status = 'running' RETURNING *
            )
            SELECT operation_id, kind, has_card, CASE WHEN dm IS NOT NULL THEN choir_control.say(
                dm, gateway, format('%s of %s was interrupted: %s.', kind, subject, error)) END AS dm
            FROM cut
            """
        )
        return [
            InterruptedOperation(row["operation_id"], row["kind"], row["dm"], row["has_card"])
            for row in rows
        ]

    async def get(self, operation_id: str) -> OperationView | None:
        """Return one operation, or None for an unknown id."""
        row = await self._database.fetchrow(
            f"SELECT {_COLUMNS} FROM choir_control.operations WHERE operation_id = $1",  # noqa: S608
            operation_id,
        )
        return operation_view(row) if row else None

    async def list_page(self, before: str | None, limit: int) -> list[OperationView]:
        """Return a page of operations, newest first, starting after the operation `before`."""
        rows = await self._database.fetch(
            f"""
            SELECT {_COLUMNS} FROM choir_control.operations
            WHERE $1::text IS NULL OR (began_at, operation_id) < (
                SELECT began_at, operation_id FROM choir_control.operations
                WHERE operation_id = $1)
            ORDER BY began_at DESC, operation_id DESC LIMIT $2
            """,  # noqa: S608 our own column names
            before,
            limit,
        )
        return [operation_view(row) for row in rows]

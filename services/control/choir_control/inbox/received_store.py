"""The table `received_files`, and the file fields of `inbox` and `signals`. Called by `fetch`."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from choir_common.errors import NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.attachments import Attachment, ReceivedFile
from choir_common.wire.signals import UserMessageSignal

_ATTACHMENTS: TypeAdapter[tuple[Attachment, ...]] = TypeAdapter(tuple[Attachment, ...])
BATCH = 500

_KEEP = """
WITH told AS (
    UPDATE choir_control.signals SET body = $2::json WHERE inbox_id = $1
), marked AS (
    UPDATE choir_control.inbox SET fetched_at = clock_timestamp() WHERE inbox_id = $1
)
INSERT INTO choir_control.received_files (inbox_id, workspace, path)
SELECT $1, $3, path FROM unnest($4::text[]) AS path ON CONFLICT DO NOTHING
"""
# A turn ends when the reply is in the log, and that event has the time. A row that was closed
# without an answer has its own.
_ANSWERED = """
SELECT f.inbox_id, f.workspace, f.path FROM choir_control.received_files AS f
JOIN choir_control.inbox AS i USING (inbox_id)
LEFT JOIN choir_control.session_events AS e
    ON e.session_id = i.session_id AND e.rev = i.answered_rev
WHERE COALESCE(e.stored_at, i.closed_at) < now() - make_interval(hours => $1) LIMIT $2
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message with files that are not fetched yet."""

    inbox_id: str
    gateway: str
    attachments: tuple[Attachment, ...]


class ReceivedStore:
    """Store of the files that came with messages, and of their paths."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self, inbox_id: str) -> Waiting | None:
        """Return a message whose files must be fetched, or None if there are none to fetch."""
        row = await self._database.fetchrow(
            "SELECT gateway, attachments FROM choir_control.inbox "
            "WHERE inbox_id = $1 AND attachments IS NOT NULL AND fetched_at IS NULL",
            inbox_id,
        )
        if row is None:
            return None
        return Waiting(inbox_id, row["gateway"], _ATTACHMENTS.validate_json(row["attachments"]))

    async def signal(self, inbox_id: str) -> str:
        """Return a message's signal as JSON text; raises NotFound."""
        body = await self._database.fetchval(
            "SELECT body FROM choir_control.signals WHERE inbox_id = $1", inbox_id
        )
        if body is None:
            raise NotFound(f"The message {inbox_id} has no signal any more.")
        return str(body)

    async def keep(self, inbox_id: str, workspace: str, files: Sequence[ReceivedFile]) -> str:
        """Store the paths of the files in the signal, once, and return the signal."""
        old = UserMessageSignal.model_validate_json(await self.signal(inbox_id))
        body = old.model_copy(update={"attachments": tuple(files)}).model_dump_json()
        paths = [file.path for file in files if file.path]
        await self._database.execute(_KEEP, inbox_id, body, workspace, paths)
        return body

    async def answered(self, hours: int) -> list[tuple[str, str, str]]:
        """Return (inbox_id, workspace, path) of files whose message was answered `hours` ago or more."""
        rows = await self._database.fetch(_ANSWERED, hours, BATCH)
        return [(row["inbox_id"], row["workspace"], row["path"]) for row in rows]

    async def forget(self, inbox_id: str, path: str) -> None:
        """Delete the row of a file that was removed."""
        await self._database.execute(
            "DELETE FROM choir_control.received_files WHERE inbox_id = $1 AND path = $2",
            inbox_id,
            path,
        )

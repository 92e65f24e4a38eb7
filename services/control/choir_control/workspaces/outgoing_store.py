"""Store of the files of outbox messages. Used by `Outgoing`."""

from dataclasses import dataclass

from choir_common.postgres.pool import Database
from choir_control.workspaces.spooled import SpooledFile, read_files


@dataclass(frozen=True, slots=True)
class SentWith:
    """Files of a message, and the workspace they came from."""

    workspace: str
    files: tuple[SpooledFile, ...]


class OutgoingStore:
    """Store of the column `files` of the table `outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, outbox_id: int) -> SentWith | None:
        """Return a message's files, or None if it has none."""
        row = await self._database.fetchrow(
            "SELECT o.files, s.workspace FROM choir_control.outbox AS o "
            "JOIN choir_control.sessions AS s USING (session_id) "
            "WHERE o.outbox_id = $1 AND o.files IS NOT NULL",
            outbox_id,
        )
        return SentWith(row["workspace"], read_files(row["files"])) if row else None

    async def open_hashes(self) -> set[str]:
        """Return the hashes of the events whose files are not delivered yet."""
        rows = await self._database.fetch(
            "SELECT files FROM choir_control.outbox "
            "WHERE files IS NOT NULL AND status IN ('waiting', 'sending')"
        )
        return {file.event_hash for row in rows for file in read_files(row["files"])}

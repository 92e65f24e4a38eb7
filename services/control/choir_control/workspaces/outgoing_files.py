"""Files that agents send: copied when the event becomes durable, removed after delivery.

The gateway fetches the copies over HTTP. Which files a message has is stored in its outbox row.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.wire.attachments import SentFile
from choir_common.wire.config import FileLimits
from choir_control.workspaces.spool import FileSpool, SpooledFile, SpoolResult, parse_files
from choir_control.workspaces.staging import remove_staged_file

log = structlog.get_logger("choir.outbox")

MIB = 1024 * 1024
HOUR_S = 3_600.0


class FileSettings(Protocol):
    """Configuration, as seen by the transfer of files."""

    def workspace_path(self, workspace: str) -> Path | None:
        """Return the directory of a workspace, or None if it is not configured."""

    @property
    def file_limits(self) -> FileLimits:
        """Return the size and retention limits of files."""


@dataclass(frozen=True, slots=True)
class OutboxFiles:
    """Files of a message, and the workspace they came from."""

    workspace: str
    files: tuple[SpooledFile, ...]


class OutboxFileStore:
    """Store of the column `files` of the table `outbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, outbox_id: int) -> OutboxFiles | None:
        """Return a message's files, or None if it has none."""
        row = await self._database.fetchrow(
            "SELECT o.files, s.workspace FROM choir_control.outbox AS o "
            "JOIN choir_control.sessions AS s USING (session_id) "
            "WHERE o.outbox_id = $1 AND o.files IS NOT NULL",
            outbox_id,
        )
        return OutboxFiles(row["workspace"], parse_files(row["files"])) if row else None

    async def undelivered_hashes(self) -> set[str]:
        """Return the hashes of the events whose files are not delivered yet."""
        rows = await self._database.fetch(
            "SELECT files FROM choir_control.outbox "
            "WHERE files IS NOT NULL AND status IN ('waiting', 'sending')"
        )
        return {file.event_hash for row in rows for file in parse_files(row["files"])}


class OutgoingFiles:
    """Service for the files of outbound messages."""

    def __init__(
        self,
        *,
        spool: FileSpool,
        store: OutboxFileStore,
        settings: FileSettings,
    ) -> None:
        self._spool = spool
        self._store = store
        self._settings = settings

    async def keep(self, event_hash: str, workspace: str, files: Sequence[SentFile]) -> SpoolResult:
        """Copy the files of a reply; a file that cannot be copied is described in
        `SpoolResult.problems`."""
        root = self._settings.workspace_path(workspace)
        if root is None:
            failures = tuple(
                f"{file.name} could not be sent: its workspace no longer exists." for file in files
            )
            return SpoolResult((), failures)
        most = self._settings.file_limits.sent_mb * MIB
        return await asyncio.to_thread(self._spool.keep, event_hash, root, files, most)

    async def find(self, outbox_id: int, number: int) -> Path:
        """Return the path of a message's file. Raises NotFound."""
        outgoing = await self._store.of(outbox_id)
        files = outgoing.files if outgoing else ()
        path = self._spool.path_of(files[number]) if number < len(files) else None
        if path is None or not await asyncio.to_thread(path.is_file):
            raise NotFound(
                _("The message {outbox_id} has no file {number}; it may have been deleted.").format(
                    outbox_id=outbox_id, number=number
                )
            )
        return path

    async def delete_delivered(self, outbox_id: int, *, keep_copy: bool) -> None:
        """Delete the agent's file after delivery, and the copy unless `keep_copy`."""
        outgoing = await self._store.of(outbox_id)
        if outgoing is None or not outgoing.files:
            return
        root = self._settings.workspace_path(outgoing.workspace)
        for file in outgoing.files:
            if root is not None:
                await asyncio.to_thread(remove_staged_file, root, file.path)
            if not keep_copy:
                await asyncio.to_thread(self._spool.drop, file.event_hash)

    async def tidy(self) -> int:
        """Delete old copies that belong to no pending message; return the number of events cleared."""
        age_s = self._settings.file_limits.received_keep_hours * HOUR_S
        stale_hashes = await asyncio.to_thread(self._spool.hashes, age_s, time.time())
        expired_hashes = (
            set(stale_hashes) - await self._store.undelivered_hashes() if stale_hashes else set()
        )
        for event_hash in expired_hashes:
            await asyncio.to_thread(self._spool.drop, event_hash)
        return len(expired_hashes)

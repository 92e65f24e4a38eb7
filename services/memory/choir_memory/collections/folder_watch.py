"""The loop that scans followed folders, in one replica at a time."""

import asyncio
import contextlib

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_memory.collections.folder_scan import FolderScanner
from choir_memory.collections.folder_store import FolderStore, FollowedFolder

log = structlog.get_logger("choir.memory.folders")

POLL_S = 2.0
"""Seconds between looks for folders that are due; a look takes a millisecond."""
LONGEST_WAIT_S = 86_400.0
_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('choir_memory.folders', 0))"


class FolderWatcher:
    """Watcher of all followed folders; start `run` as a task and `wake` it for a new one."""

    def __init__(self, database: Database, folders: FolderStore, scanner: FolderScanner) -> None:
        self._database = database
        self._folders = folders
        self._scanner = scanner
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Look for due folders at once."""
        self._news.set()

    async def run(self) -> None:
        """Scan folders when they are due, until cancelled."""
        try:
            while True:
                try:
                    await self._run_due()
                except ChoirError as error:
                    log.warning("followed folders are scanned later", error=error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._news.wait()
                self._news.clear()
        finally:
            self._scanner.reader.close()

    async def _run_due(self) -> None:
        due = await self._folders.list_due(LONGEST_WAIT_S)
        if not due:
            return
        # a lock of the connection: the crash of a replica releases it at once
        async with self._database.dedicated_connection() as connection:
            if not await connection.fetchval(_LOCK):
                return
            while due:
                for folder in due:
                    await self._run_turn(folder)
                due = await self._folders.list_due(LONGEST_WAIT_S)
        await asyncio.to_thread(self._scanner.reader.close)

    async def _run_turn(self, folder: FollowedFolder) -> None:
        try:
            await self._scanner.run_turn(folder)
        except ChoirError as error:
            log.warning(
                "a followed folder is scanned later",
                agent_id=folder.agent_id,
                collection=folder.collection,
                error=error.message,
            )
            await asyncio.sleep(POLL_S)
            await self._folders.note_problem(folder, error.message)
        except Exception:  # the other folders must still be scanned
            log.exception("a scan of a followed folder failed", collection=folder.collection)
            await asyncio.sleep(POLL_S)

"""The worker that erases the content of ended sessions: incognito ones, and those that a person had erased.

The hashes of their events stay. It is woken when a session ends. What it cannot erase yet, such as a reply
that is still being delivered, is erased by a later sweep. See docs/design/memory.md.
"""

import asyncio

import structlog

from choir_control.configuration.current import ConfigService
from choir_control.log.retention.content_store import ErasableSession, SessionContentStore
from choir_control.log.retention.incognito_store import IncognitoStore
from choir_control.log.retention.log_eraser import LogEraser
from choir_control.log.retention.reset_store import SessionResetStore
from choir_control.periodic import run_periodically
from choir_control.workspaces.spool import FileSpool
from choir_control.workspaces.staging import STAGING, remove_staged_file

log = structlog.get_logger("choir.retention")

INTERVAL_S = 5.0
"""Seconds between sweeps for work that nobody announced: pending deliveries and restarts."""


class SessionContentEraser:
    """Worker that erases log, messages, requests and files of ended sessions."""

    def __init__(
        self,
        *,
        incognito: IncognitoStore,
        resets: SessionResetStore,
        content: SessionContentStore,
        logs: LogEraser,
        spool: FileSpool,
        configuration: ConfigService,
    ) -> None:
        self._incognito = incognito
        self._resets = resets
        self._content = content
        self._logs = logs
        self._spool = spool
        self._configuration = configuration
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Start a sweep now: a session has ended."""
        self._awake.set()

    async def run(self) -> None:
        """Run sweeps until cancelled."""
        await run_periodically(INTERVAL_S, "erasure of sessions", self.sweep, self._awake)

    async def sweep(self) -> None:
        """Erase every session that is due.

        Raises Unavailable if the database is unavailable; the next sweep continues.
        """
        for session in [*await self._incognito.due(), *await self._resets.list_due()]:
            await self._erase(session)

    async def _erase(self, session: ErasableSession) -> None:
        # The files first: the events that name them are deleted next.
        files = await self._content.find_files(session)
        for workspace, path in files.staged:
            root = self._configuration.workspace_path(workspace)
            if root is not None and path.startswith(f"{STAGING}/"):
                await asyncio.to_thread(remove_staged_file, root, path)
        for event_hash in files.spooled:
            await asyncio.to_thread(self._spool.drop, event_hash)
        # A damaged log is erased, too: the promise to the user counts more than the evidence.
        if session.log.head.rev:
            await self._logs.erase_events(session.log)
        if await self._content.erase_rows(session.log.session_id):
            log.info(
                "session content erased",
                session=session.log.session_id,
                agent=session.log.agent_id,
                events=session.log.head.rev,
            )

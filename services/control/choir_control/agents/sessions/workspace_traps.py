"""Periodic search of workspaces for traps, after their agents have worked.

Workspaces below `workspaces/` of Choir's home belong to their agents: traps of git are disabled there. Other
directories belong to the owner, whose own hooks may be in them: there traps are only named.
"""

import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.workspaces.cancellation import run_cancellable
from choir_control.workspaces.traps import TrapReport, search_traps

log = structlog.get_logger("choir.sessions")

INTERVAL_S = 10.0
UNCONDITIONAL_INTERVAL_S = 300.0
"""A process in the background may write while its session logs nothing."""
SEARCH_S = 10.0
REST_FACTOR = 20
"""A search is not repeated before this multiple of its duration."""


@dataclass(frozen=True, slots=True)
class LastSearch:
    """The last search of a workspace: how far its session's log was, and when it may be repeated."""

    path: str
    progress: tuple[str, int] | None
    at: float
    rest_until: float
    report: TrapReport


class WorkspaceTrapService:
    """Service that disables or names the traps in workspaces."""

    def __init__(self, *, home: Path, configuration: ConfigService, sessions: SessionStore) -> None:
        self._own = home / "workspaces"
        self._configuration = configuration
        self._sessions = sessions
        self._searches: dict[str, LastSearch] = {}

    def report(self, name: str) -> TrapReport:
        """Return what the last search of a workspace found; nothing before the first one."""
        search = self._searches.get(name)
        return search.report if search else TrapReport()

    async def sweep(self) -> None:
        """Search the workspaces whose sessions have logged something since the last search, or have ended.

        Raises Unavailable if the sessions cannot be read, or git cannot be run.
        """
        live = {
            session.bindings.workspace: (session.session_id, session.head.rev)
            for session in await self._sessions.list_live()
        }
        for name, workspace in self._configuration.current.config.workspaces.items():
            progress = live.get(name)
            if self._is_due(name, workspace.path, progress):
                start = time.monotonic()
                report = await self._search(name, Path(workspace.path))
                now = time.monotonic()
                rest_until = now + REST_FACTOR * (now - start)
                self._searches[name] = LastSearch(workspace.path, progress, now, rest_until, report)

    def _is_due(self, name: str, path: str, progress: tuple[str, int] | None) -> bool:
        last, now = self._searches.get(name), time.monotonic()
        if last is None or last.path != path:
            return True
        if now < last.rest_until:
            return False
        has_worked = last.progress != progress
        return has_worked or (progress is not None and now - last.at > UNCONDITIONAL_INTERVAL_S)

    async def _search(self, name: str, path: Path) -> TrapReport:
        before = self.report(name)
        try:
            report = await run_cancellable(partial(self._search_now, path))
        except FileNotFoundError:
            return TrapReport()
        except OSError as error:
            log.warning("workspace not searched for traps", workspace=name, error=str(error))
            return TrapReport(is_complete=False)
        if report.changes:
            log.warning("traps disabled in a workspace", workspace=name, paths=report.changes)
        if set(report.warnings) - set(before.warnings):
            log.warning("traps in a workspace", workspace=name, paths=report.warnings)
        if not report.is_complete and before.is_complete:
            log.warning("workspace is too large to search for traps", workspace=name)
        return report

    def _search_now(self, path: Path, cancelled: threading.Event) -> TrapReport:
        root = path.expanduser().resolve()
        is_own = root.is_relative_to(self._own.resolve())
        return search_traps(root, disable=is_own, within_s=SEARCH_S, cancelled=cancelled)

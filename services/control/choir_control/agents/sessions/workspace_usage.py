"""Periodic measurement of workspaces against their limits (`workspaces.NAME.limits`).

An agent enforces the limits itself, before and while it writes. Control measures independently of it, and
notifies the user of an agent whose workspace is over a limit.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from choir_common.i18n import _
from choir_common.wire.config import WorkspaceLimits
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.leases.dm_memory import DmMemoryStore
from choir_control.log.signals.notifier import OutboxRescanner
from choir_control.workspaces.cancellation import run_cancellable
from choir_control.workspaces.directory import WorkspaceSize, measure_workspace

log = structlog.get_logger("choir.sessions")

INTERVAL_S = 10.0
UNCONDITIONAL_INTERVAL_S = 300.0
"""A process in the background may write while its session logs nothing."""
MEASURE_S = 10.0
REST_FACTOR = 50
"""A measurement is not repeated before this multiple of its duration."""
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """The last measurement of a workspace: how far its session's log was, and when it may be repeated."""

    path: str
    progress: tuple[str, int] | None
    at: float
    rest_until: float
    size: WorkspaceSize


class WorkspaceUsageService:
    """Service that measures workspaces and tells the users of their agents about those over a limit."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        sessions: SessionStore,
        notices: DmMemoryStore,
        outbox: OutboxRescanner,
        conversations: ConversationStore,
    ) -> None:
        self._configuration = configuration
        self._sessions = sessions
        self._notices = notices
        self._outbox = outbox
        self._conversations = conversations
        self._measurements: dict[str, Measurement] = {}
        self._notified: set[str] = set()
        """Workspaces over a limit whose user knows it."""

    def excess(self, name: str) -> str:
        """Return what a workspace has and may have, if it was over a limit; else an empty string."""
        workspace = self._configuration.current.config.workspaces.get(name)
        measurement = self._measurements.get(name)
        if workspace is None or measurement is None:
            return ""
        return describe_excess(measurement.size, workspace.limits)

    def all_excesses(self) -> tuple[str, ...]:
        """Return a sentence about each workspace over a limit."""
        names = sorted(self._configuration.current.config.workspaces)
        return tuple(f"{name} {excess}" for name in names if (excess := self.excess(name)))

    async def sweep(self) -> None:
        """Measure the workspaces whose sessions have logged something since the last time, or have ended.

        Raises Unavailable if the sessions cannot be read.
        """
        live = {session.bindings.workspace: session for session in await self._sessions.list_live()}
        for name, workspace in self._configuration.current.config.workspaces.items():
            session = live.get(name)
            progress = (session.session_id, session.head.rev) if session else None
            if self._is_due(name, workspace.path, progress):
                self._measurements[name] = await self._measure(workspace.path, progress)
            await self._notify(name, session)

    def _is_due(self, name: str, path: str, progress: tuple[str, int] | None) -> bool:
        last, now = self._measurements.get(name), time.monotonic()
        if last is None or last.path != path:
            return True
        if now < last.rest_until:
            return False
        has_worked = last.progress != progress
        return has_worked or (progress is not None and now - last.at > UNCONDITIONAL_INTERVAL_S)

    async def _measure(self, path: str, progress: tuple[str, int] | None) -> Measurement:
        start = time.monotonic()
        size = await run_cancellable(partial(measure_workspace, Path(path), MEASURE_S))
        now = time.monotonic()
        return Measurement(path, progress, now, now + REST_FACTOR * (now - start), size)

    async def _notify(self, name: str, session: SessionRow | None) -> None:
        """Tell the users of all its conversations once that a workspace is over a limit.

        They are told again if it was below the limit meanwhile.
        """
        excess = self.excess(name)
        if not excess:
            self._notified.discard(name)
            return
        if session is None or name in self._notified:
            return
        for dm in (session.bindings.dm, *await self._conversations.list_bound(session.session_id)):
            gateway = self._configuration.current.gateway_of(dm)
            if gateway is not None:
                text = NOTICE.format(name=name, excess=excess)
                notice = self._configuration.translate(dm, text)
                await self._notices.notify(dm, gateway, notice)
                self._outbox.rescan(dm)
        self._notified.add(name)
        log.warning("workspace is over its limit", workspace=name, excess=excess)


NOTICE = _(
    "The workspace {name} {excess}. Its agent can delete files there, but not write any. "
    "Ask it to delete what is not needed, or raise `workspaces.{name}.limits` in "
    "config.json."
)


def describe_excess(size: WorkspaceSize, limits: WorkspaceLimits) -> str:
    """Return what a workspace has and may have if that is too much, else an empty string."""
    parts = []
    if limits.mb is not None and size.allocated > limits.mb * MEGABYTE:
        parts.append(
            _("{allocated:,.0f} MB (limit: {mb:,} MB)").format(
                allocated=size.allocated / MEGABYTE, mb=limits.mb
            )
        )
    if limits.files is not None and size.entries > limits.files:
        parts.append(
            _("{entries:,} files and directories (limit: {files:,})").format(
                entries=size.entries, files=limits.files
            )
        )
    if len(parts) == 2:
        return _("has {first} and {second}").format(first=parts[0], second=parts[1])
    return _("has {first}").format(first=parts[0]) if parts else ""

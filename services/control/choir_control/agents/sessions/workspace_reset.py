"""Workspace reset: stop the agent that uses the workspace, lease it meanwhile, and delete its contents.

A lease without a session prevents every start until it is dropped. If control crashes in between, the next
startup drops it (`LeaseStore.delete_stale`). The deletion itself is in `choir_control.workspaces`.
"""

import asyncio
from functools import partial
from pathlib import Path

import structlog

from choir_common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.operations import ResetWorkspace, WorkspaceReset, WorkspaceView
from choir_control.agents.operations.progress import OperationProgress
from choir_control.agents.operations.service import OperationFailed, OperationService
from choir_control.agents.operations.store import Requester
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.workspace_traps import WorkspaceTrapService
from choir_control.agents.sessions.workspace_usage import describe_excess
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import LeaseStore
from choir_control.workspaces.cancellation import run_cancellable
from choir_control.workspaces.deletion import DeletionResult, delete_contents
from choir_control.workspaces.directory import (
    WorkspaceSize,
    check_may_be_emptied,
    measure_workspace,
)

log = structlog.get_logger("choir.sessions")

LEASE_HOLDER = _("a workspace reset")
STOP_REASON = _("its workspace is being reset")
ATTEMPTS = 3
MEASURE_S = 1.0


class WorkspaceService:
    """Service that lists and resets the configured workspaces."""

    def __init__(
        self,
        *,
        home: Path,
        configuration: ConfigService,
        leases: LeaseStore,
        starter: SessionStarter,
        stopper: SessionStopper,
        operations: OperationService,
        traps: WorkspaceTrapService,
    ) -> None:
        self._home = home
        self._configuration = configuration
        self._leases = leases
        self._starter = starter
        self._stopper = stopper
        self._operations = operations
        self._traps = traps

    async def all(self) -> list[WorkspaceView]:
        """Return every workspace by name, with the agent that uses it and its size."""
        holders = await self._leases.holders("workspace:")
        views = []
        for name, workspace in sorted(self._configuration.current.config.workspaces.items()):
            usage = await run_cancellable(
                partial(measure_workspace, Path(workspace.path), MEASURE_S)
            )
            holder = holders.get(f"workspace:{name}")
            report = self._traps.report(name)
            views.append(
                WorkspaceView(
                    name=name,
                    path=workspace.path,
                    agent_id=holder.agent_id if holder and holder.session_id else None,
                    session_id=holder.session_id if holder else None,
                    exists=usage.exists,
                    files=usage.files,
                    size=usage.size,
                    complete=usage.complete,
                    excess=describe_excess(usage, workspace.limits),
                    disabled=report.disabled,
                    traps=report.warnings,
                    searched=report.is_complete,
                )
            )
        return views

    async def one(self, name: str) -> WorkspaceView:
        """Return a workspace that may be reset; raises the same errors as `reset` for its name."""
        await self._root(name)
        return next(view for view in await self.all() if view.name == name)

    async def reset(
        self, name: str, request: ResetWorkspace, asker: Requester | None = None
    ) -> str:
        """Start to delete everything in a workspace; return the operation's id.

        The conversation `asker`, if any, is notified of the end.

        Raises NotFound, InvalidRequest without the name as confirmation, and Conflict for a path that must
        not be
        emptied or a workspace that is being reset already.
        """
        # checked before the operation, so that the request itself fails with a clear error
        root = await self._root(name)
        if request.confirm != name:
            raise InvalidRequest(
                _(
                    "To delete everything in {root}, confirm with the workspace's name, {name!r}."
                ).format(root=root, name=name)
            )

        async def work(progress: OperationProgress) -> WorkspaceReset:
            done = await self._reset(name, root, request.restart, progress)
            if done.stopped:
                progress.outcome = _("{at}. {stopped} was stopped for the reset.").format(
                    at=progress.at, stopped=done.stopped
                )
            return _raise_if_incomplete(done)

        alone = frozenset({f"workspace {name}"})
        return await self._operations.begin(_("workspace reset"), name, alone, work, asker)

    async def _root(self, name: str) -> Path:
        workspaces = self._configuration.current.config.workspaces
        if name not in workspaces:
            names = ", ".join(sorted(workspaces)) or _("none")
            raise NotFound(
                _("There is no workspace {name!r} in config.json (it has {names}).").format(
                    name=name[:80], names=names
                )
            )
        return await asyncio.to_thread(
            check_may_be_emptied, Path(workspaces[name].path), self._home
        )

    async def _reset(
        self, name: str, root: Path, restart: bool, progress: OperationProgress
    ) -> WorkspaceReset:
        session = await self._lease_workspace(f"workspace:{name}", progress)
        try:
            result = await _empty(root, progress)
        finally:
            await self._leases.release(f"workspace:{name}")
        log.info(
            "workspace reset",
            workspace=name,
            path=str(root),
            removed=result.removed,
            left=result.failures,
        )
        if restart and session:
            progress.progress(_("starting {agent_id} again").format(agent_id=session.agent_id))
            await self._starter.restart(session.agent_id, session.initial_bindings, session.image)
        return WorkspaceReset(
            name=name,
            path=str(root),
            removed=result.removed,
            left=tuple(result.failures),
            stopped=session.agent_id if session else None,
            restarted=restart and session is not None,
        )

    async def _lease_workspace(
        self, resource: str, progress: OperationProgress
    ) -> SessionRow | None:
        """Lease the workspace; return the session that was stopped for it, or None."""
        session: SessionRow | None = None
        for _attempt in range(ATTEMPTS):
            if await self._leases.acquire_for_operation(resource, LEASE_HOLDER):
                return session
            holder = (await self._leases.holders(resource)).get(resource)
            if holder is None:
                continue
            if holder.session_id is None:
                raise Conflict(
                    _("{resource} is being reset already; wait until that is done.").format(
                        resource=resource
                    )
                )
            progress.progress(f"stopping {holder.agent_id}")
            session = await self._stopper.stop(holder.agent_id, STOP_REASON) or session
        raise Conflict(
            _("{resource} is repeatedly taken by other agents; stop them first.").format(
                resource=resource
            )
        )


class _DeletionReport:
    """Reporter of a deletion's progress to the operation, from the deletion's thread."""

    def __init__(self, progress: OperationProgress, usage: WorkspaceSize) -> None:
        self._progress = progress
        self._usage = usage
        self._loop = asyncio.get_running_loop()

    def note_removed(self, count: int) -> None:
        self._loop.call_soon_threadsafe(self.report, count)

    def report(self, count: int) -> None:
        usage = self._usage
        total = f"{usage.entries:,}{'' if usage.complete else ' or more'}"
        share = min(1.0, count / max(usage.entries, 1)) if usage.complete else None
        self._progress.progress(
            _("{count:,} of {total} entries deleted").format(count=count, total=total), share
        )


async def _empty(root: Path, progress: OperationProgress) -> DeletionResult:
    """Empty a directory in a thread, and report progress after every thousand entries."""
    usage = await run_cancellable(partial(measure_workspace, root, MEASURE_S))
    listener = _DeletionReport(progress, usage)
    listener.report(0)
    try:
        result = await asyncio.to_thread(delete_contents, root, listener)
    except FileNotFoundError:
        result = DeletionResult()
    except OSError as error:
        raise Unavailable(
            _("{root} cannot be opened: {strerror}.").format(root=root, strerror=error.strerror)
        ) from error
    listener.report(result.removed)
    return result


def _raise_if_incomplete(done: WorkspaceReset) -> WorkspaceReset:
    """Return a complete reset; raise OperationFailed with the result if entries were left."""
    if done.left:
        raise OperationFailed(
            _("{path} is not empty: {removed:,} entries were deleted, but not {left}.").format(
                path=done.path, removed=done.removed, left="; ".join(done.left)
            ),
            done,
        )
    return done

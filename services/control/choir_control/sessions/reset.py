"""Empty a workspace: stop who holds it, hold it meanwhile, delete what is in it (spec 15.4).

Called by the operator door; the deleting is in `workspaces`. A lease without a session keeps every start away
while it lasts; one that a crash of control left behind is dropped by `boot`.
"""

import asyncio
from pathlib import Path

import structlog

from choir_common.errors import BadInput, Conflict, NotFound, Unavailable
from choir_common.wire.workspaces import ResetWorkspace, WorkspaceReset, WorkspaceView
from choir_control.configuration.current import Configuration
from choir_control.leases.store import LeaseStore
from choir_control.sessions.record import SessionRow
from choir_control.sessions.start import Starter
from choir_control.sessions.stop import Stopper
from choir_control.workspaces.empty import Emptied, empty
from choir_control.workspaces.measure import measure
from choir_control.workspaces.root import check_root

log = structlog.get_logger("choir.sessions")

WHO = "a workspace reset"
WHY = "its workspace is being reset"
ATTEMPTS = 3
MEASURE_S = 1.0


class Workspaces:
    """The workspaces of the configuration."""

    def __init__(
        self,
        home: Path,
        configuration: Configuration,
        leases: LeaseStore,
        starter: Starter,
        stopper: Stopper,
    ) -> None:
        self._home = home
        self._configuration = configuration
        self._leases = leases
        self._starter = starter
        self._stopper = stopper

    async def all(self) -> list[WorkspaceView]:
        """Return every workspace by name, with its holder and how much it holds."""
        held = await self._leases.holders("workspace:")
        found = []
        for name, workspace in sorted(self._configuration.current.config.workspaces.items()):
            counted = await asyncio.to_thread(measure, Path(workspace.path), MEASURE_S)
            holder = held.get(f"workspace:{name}")
            found.append(
                WorkspaceView(
                    name=name,
                    path=workspace.path,
                    agent_id=holder.agent_id if holder and holder.session_id else None,
                    session_id=holder.session_id if holder else None,
                    exists=counted.exists,
                    files=counted.files,
                    size=counted.size,
                    complete=counted.complete,
                )
            )
        return found

    async def reset(self, name: str, asked: ResetWorkspace) -> WorkspaceReset:
        """Delete everything in a workspace. Once begun it is carried through.

        Raises NotFound, BadInput without the name as confirmation, Conflict for a path that is not to be
        emptied or a workspace that is being reset already.
        """
        root = await self._root(name)
        if asked.confirm != name:
            raise BadInput(
                f"To delete everything in {root}, confirm with the workspace's name, {name!r}."
            )
        return await asyncio.shield(asyncio.ensure_future(self._reset(name, root, asked.restart)))

    async def _root(self, name: str) -> Path:
        known = self._configuration.current.config.workspaces
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise NotFound(f"There is no workspace {name[:80]!r} in config.json (it has {names}).")
        return await asyncio.to_thread(check_root, Path(known[name].path), self._home)

    async def _reset(self, name: str, root: Path, restart: bool) -> WorkspaceReset:
        ended = await self._take(f"workspace:{name}")
        try:
            done = await asyncio.to_thread(_empty, root)
        finally:
            await self._leases.drop(f"workspace:{name}")
        log.info(
            "workspace reset", workspace=name, path=str(root), removed=done.removed, left=done.left
        )
        if restart and ended:
            await self._starter.start_as(ended.agent_id, ended.started_with)
        return WorkspaceReset(
            name=name,
            path=str(root),
            removed=done.removed,
            left=tuple(done.left),
            stopped=ended.agent_id if ended else None,
            restarted=restart and ended is not None,
        )

    async def _take(self, resource: str) -> SessionRow | None:
        """Hold a workspace; return the session that was stopped for it."""
        ended: SessionRow | None = None
        for _ in range(ATTEMPTS):
            if await self._leases.hold(resource, WHO):
                return ended
            holder = (await self._leases.holders(resource)).get(resource)
            if holder is None:
                continue
            if holder.session_id is None:
                raise Conflict(f"{resource} is being reset already; wait until that is done.")
            ended = await self._stopper.stop(holder.agent_id, WHY) or ended
        raise Conflict(f"{resource} is taken again and again; stop the agents that want it first.")


def _empty(root: Path) -> Emptied:
    try:
        return empty(root)
    except FileNotFoundError:
        return Emptied()
    except OSError as error:
        raise Unavailable(f"{root} cannot be opened: {error.strerror}.") from error

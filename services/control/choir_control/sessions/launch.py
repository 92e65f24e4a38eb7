"""Launch of the agent process of a granted epoch."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from choir_common.errors import NotFound, Unavailable
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.current import Configuration
from choir_control.images.port import SessionImage
from choir_control.runtimes.port import AgentRuntime, HttpWay, LaunchSpec, RunningAgent
from choir_control.sessions.outfit import Outfitter
from choir_control.sessions.record import Grant
from choir_control.settings import ControlSettings

log = structlog.get_logger("choir.sessions")


class Launcher:
    """Launcher that prepares the workspace and image of an agent and calls the runtime."""

    def __init__(
        self,
        settings: ControlSettings,
        configuration: Configuration,
        runtime: AgentRuntime,
        outfitter: Outfitter,
        way: Callable[[], HttpWay | None],
    ) -> None:
        self._settings = settings
        self._configuration = configuration
        self._runtime = runtime
        self._outfitter = outfitter
        self._way = way

    async def newest(self, agent_id: str) -> SessionImage:
        """Return the image for a new session; raise Conflict when it has to be built first."""
        return await self._outfitter.newest(agent_id)

    async def check(self, agent_id: str, bindings: ResourceBindings, image: SessionImage) -> None:
        """Check, before anything is granted or stopped, that the agent could be started.

        Raises Conflict, NotFound or Unavailable.
        """
        await asyncio.to_thread(self._workspace, bindings.workspace)
        await self._outfitter.check(agent_id, image)

    async def launch(self, grant: Grant) -> RunningAgent:
        """Start the agent process of this epoch.

        Raises Unavailable, or an error of the runtime, when the process cannot be started.
        """
        session = grant.session
        workspace = await asyncio.to_thread(self._workspace, session.bindings.workspace)
        image = session.image or await self._outfitter.newest(session.agent_id)
        outfit = await self._outfitter.dress(session.agent_id, image)
        running = await self._runtime.start(
            LaunchSpec(
                agent_id=session.agent_id,
                session_id=session.session_id,
                epoch=session.epoch,
                lease_token=grant.token.value,
                workspace=workspace,
                choir_dir=outfit.choir_dir,
                socket_dir=self._settings.agent_socket_dir(session.agent_id),
                docker_image=outfit.docker_image,
                image_version=outfit.version.image_version if outfit.version else "",
                http=self._way(),
            )
        )
        log.info(
            "agent started",
            agent=session.agent_id,
            session=session.session_id,
            epoch=session.epoch,
            handle=running.handle,
        )
        return running

    def _workspace(self, name: str) -> Path:
        known = self._configuration.current.config.workspaces
        if name not in known:
            raise NotFound(f"The workspace {name!r} is no longer in config.json.")
        path = Path(known[name].path).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"Cannot make the workspace {path}: {error.strerror}.") from error
        return path

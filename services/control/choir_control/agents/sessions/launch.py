"""Launch of the agent process of a granted epoch, from a built image or the default identity.

An image that differs from what was built is refused; see docs/design/lifecycle.md rule 4.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from choir_common.errors import Conflict, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.identity_dir import ImageVersion
from choir_common.wire.config import Config
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.proxied_keys import TOOL_RESOURCES, read_tool_resources
from choir_control.agents.runtimes.port import (
    AgentRuntime,
    ControlAddress,
    LaunchSpec,
    RunningAgent,
)
from choir_control.agents.sessions.record import EpochGrant
from choir_control.configuration.current import ConfigService
from choir_control.configuration.identity_files import write_identity_files
from choir_control.images.build_service import image_sources
from choir_control.images.builder import ImageBuilder, SessionImage
from choir_control.images.image_store import ImageStore
from choir_control.settings import ControlSettings

log = structlog.get_logger("choir.sessions")


@dataclass(frozen=True, slots=True)
class LaunchImage:
    """The contents of /choir for one start."""

    choir_dir: Path
    """A directory on the host; it is not mounted when a Docker image is used."""
    docker_image: str = ""
    version: ImageVersion | None = None


class LaunchImageResolver:
    """Resolver that selects and verifies the image of each start."""

    def __init__(
        self,
        *,
        home: Path,
        configuration: ConfigService,
        image_store: ImageStore,
        builder: ImageBuilder,
    ) -> None:
        self._home = home
        self._configuration = configuration
        self._image_store = image_store
        self._builder = builder

    async def newest(self, agent_id: str) -> SessionImage:
        """Return the image for a new session of an agent.

        Raises Conflict when the image has to be built first.
        """
        sources = image_sources(self._configuration.current.config, agent_id, self._home)
        if not sources:
            return SessionImage(None)
        image = await asyncio.to_thread(self._image_store.get_current, agent_id)
        if image is None and sources.is_folder_only:
            # a folder is optional: until it is built, the default identity is used
            return SessionImage(None)
        if image is None:
            raise Conflict(
                _(
                    "{agent_id} has a repository, but no image was built yet. Run `choirctl agent build "
                    "{agent_id}` first."
                ).format(agent_id=agent_id)
            )
        return SessionImage(image)

    async def check(self, agent_id: str, session_image: SessionImage) -> None:
        """Raise Conflict or Unavailable if the image cannot be started."""
        image = session_image.image
        if image is None:
            return
        advice = _(
            "Run `choirctl agent update {agent_id}`, or `agent build` and `agent start`."
        ).format(agent_id=agent_id)
        if image.kind != self._builder.kind:
            raise Conflict(
                _(
                    "The image of {agent_id} was built for the {kind} runtime, and this is the {own_kind} "
                    "runtime. {advice}"
                ).format(
                    agent_id=agent_id, kind=image.kind, own_kind=self._builder.kind, advice=advice
                )
            )
        fault = await self._builder.find_drift(image)
        if fault is not None:
            raise Conflict(
                _("The image of {agent_id} differs from what was built: {fault}. {advice}").format(
                    agent_id=agent_id, fault=fault, advice=advice
                )
            )

    def remember(self, agent_id: str, image: SessionImage | None) -> None:
        """Record the image version of a running or unfinished session, so that cleanup keeps it."""
        version = image.image.version if image is not None and image.image is not None else None
        self._image_store.set_running(agent_id, version)

    async def prepare(self, agent_id: str, session_image: SessionImage) -> LaunchImage:
        """Return the files and image for a start, and record the version for the handshake.

        Raises Conflict for an image that cannot be started, and Unavailable.
        """
        await self.check(agent_id, session_image)
        self.remember(agent_id, session_image)
        image = session_image.image
        if image is None:
            identity_dir = await asyncio.to_thread(write_identity_files, self._home, agent_id, "")
            return LaunchImage(identity_dir)
        if image.kind == "docker":
            return LaunchImage(self._home / "images" / agent_id, image.place, image.version)
        return LaunchImage(Path(image.place), version=image.version)


async def _tool_resources(image: LaunchImage) -> frozenset[str]:
    """Return the resources whose secrets external tools receive; those of a Docker image are not known."""
    if image.docker_image:
        return TOOL_RESOURCES
    return await asyncio.to_thread(read_tool_resources, image.choir_dir)


class ControlListener(Protocol):
    """TCP listener of control, as seen by the launch of agents."""

    def agent_endpoint(self) -> ControlAddress | None:
        """Return how agents reach control over HTTP, or None if they use their own Unix sockets."""


class AgentLauncher:
    """Launcher that prepares the workspace and image of an agent and calls the runtime."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        configuration: ConfigService,
        runtime: AgentRuntime,
        image_resolver: LaunchImageResolver,
        listener: ControlListener,
        egress: EgressRegistry,
    ) -> None:
        self._settings = settings
        self._configuration = configuration
        self._runtime = runtime
        self._image_resolver = image_resolver
        self._listener = listener
        self._egress = egress

    async def newest(self, agent_id: str) -> SessionImage:
        """Return the image for a new session; raise Conflict when it has to be built first."""
        return await self._image_resolver.newest(agent_id)

    async def check(self, agent_id: str, bindings: ResourceBindings, image: SessionImage) -> None:
        """Check, before anything is granted or stopped, that the agent could be started.

        Raises Conflict, NotFound or Unavailable.
        """
        await asyncio.to_thread(
            make_workspace, self._configuration.current.config, bindings.workspace
        )
        await self._image_resolver.check(agent_id, image)

    async def launch(self, grant: EpochGrant) -> RunningAgent:
        """Start the agent process of this epoch.

        Raises Unavailable, or an error of the runtime, when the process cannot be started.
        """
        session = grant.session
        config = self._configuration.current.config
        workspace = await asyncio.to_thread(make_workspace, config, session.bindings.workspace)
        image = session.image or await self._image_resolver.newest(session.agent_id)
        outfit = await self._image_resolver.prepare(session.agent_id, image)
        agent = await self._runtime.start(
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
                egress_key=await self._egress.admit(
                    session.agent_id, await _tool_resources(outfit)
                ),
                http=self._listener.agent_endpoint(),
            )
        )
        log.info(
            "agent started",
            agent=session.agent_id,
            session=session.session_id,
            epoch=session.epoch,
            handle=agent.handle,
        )
        return agent


def make_workspace(config: Config, name: str) -> Path:
    """Return the directory of a workspace, and create it if it is missing; blocking.

    Raises NotFound and Unavailable.
    """
    if name not in config.workspaces:
        raise NotFound(_("The workspace {name!r} is no longer in config.json.").format(name=name))
    path = Path(config.workspaces[name].path).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            _("Cannot create the workspace {path}: {strerror}.").format(
                path=path, strerror=error.strerror
            )
        ) from error
    return path

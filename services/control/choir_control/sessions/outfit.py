"""Say what an agent is started with: a built image, or Choir's own identity where it has no repository.

Called by `start`, before anything is granted, and by `launch`. An image that is not what was built is refused
(spec 15.1).
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from choir_common.choir_dir import ImageVersion
from choir_common.errors import Conflict
from choir_control.configuration.current import Configuration
from choir_control.configuration.identity import lay_out_identity
from choir_control.images.build import sources_of
from choir_control.images.port import ImageBuilder, SessionImage
from choir_control.images.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Outfit:
    """What stands in /choir of one start."""

    choir_dir: Path
    """A directory of the host; where there is a Docker image, it is not mounted."""
    docker_image: str = ""
    version: ImageVersion | None = None


class Outfitter:
    """Knows the images and what to do without one."""

    def __init__(
        self, home: Path, configuration: Configuration, shelf: Shelf, builder: ImageBuilder
    ) -> None:
        self._home = home
        self._configuration = configuration
        self._shelf = shelf
        self._builder = builder

    async def newest(self, agent_id: str) -> SessionImage:
        """Return what a new session of an agent is started with.

        Raises Conflict when its image has to be built first.
        """
        sources = sources_of(self._configuration.current.config, agent_id, self._home)
        if not sources:
            return SessionImage(None)
        image = await asyncio.to_thread(self._shelf.current, agent_id)
        if image is None and sources.is_folder:
            return SessionImage(None)  # nobody has asked for its files yet
        if image is None:
            raise Conflict(
                f"{agent_id} has a repository, but no image was built yet. Run `choirctl agent build "
                f"{agent_id}` first."
            )
        return SessionImage(image)

    async def check(self, agent_id: str, wanted: SessionImage) -> None:
        """Refuse an image that cannot be started; raises Conflict, Unavailable."""
        image = wanted.image
        if image is None:
            return
        again = f"Run `choirctl agent update {agent_id}`, or `agent build` and `agent start`."
        if image.kind != self._builder.kind:
            raise Conflict(
                f"The image of {agent_id} was built for the {image.kind} runtime, and this is the "
                f"{self._builder.kind} runtime. {again}"
            )
        fault = await self._builder.fault(image)
        if fault is not None:
            raise Conflict(f"The image of {agent_id} is not what was built: {fault}. {again}")

    def remember(self, agent_id: str, image: SessionImage | None) -> None:
        """Note what an agent runs with, or goes on with, so that it is not removed as outdated."""
        version = image.image.version if image is not None and image.image is not None else None
        self._shelf.note_start(agent_id, version)

    async def dress(self, agent_id: str, wanted: SessionImage) -> Outfit:
        """Return what to start an agent with, and remember it for its greeting.

        Raises Conflict for an image that cannot be started, Unavailable.
        """
        await self.check(agent_id, wanted)
        self.remember(agent_id, wanted)
        image = wanted.image
        if image is None:
            plain = await asyncio.to_thread(lay_out_identity, self._home, agent_id, "")
            return Outfit(plain)
        if image.kind == "docker":
            return Outfit(self._home / "images" / agent_id, image.place, image.version)
        return Outfit(Path(image.place), version=image.version)

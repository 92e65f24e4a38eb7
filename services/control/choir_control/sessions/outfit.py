"""Resolution of what an agent is started with: a built image, or the default identity.

An image that differs from what was built is refused; see docs/design/lifecycle.md rule 4.
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
    """The contents of /choir for one start."""

    choir_dir: Path
    """A directory on the host; it is not mounted when a Docker image is used."""
    docker_image: str = ""
    version: ImageVersion | None = None


class Outfitter:
    """Resolver that selects and verifies the image of each start."""

    def __init__(
        self, home: Path, configuration: Configuration, shelf: Shelf, builder: ImageBuilder
    ) -> None:
        self._home = home
        self._configuration = configuration
        self._shelf = shelf
        self._builder = builder

    async def newest(self, agent_id: str) -> SessionImage:
        """Return the image for a new session of an agent.

        Raises Conflict when the image has to be built first.
        """
        sources = sources_of(self._configuration.current.config, agent_id, self._home)
        if not sources:
            return SessionImage(None)
        image = await asyncio.to_thread(self._shelf.current, agent_id)
        if image is None and sources.is_folder:
            # a folder is optional: until it is built, the default identity is used
            return SessionImage(None)
        if image is None:
            raise Conflict(
                f"{agent_id} has a repository, but no image was built yet. Run `choirctl agent build "
                f"{agent_id}` first."
            )
        return SessionImage(image)

    async def check(self, agent_id: str, wanted: SessionImage) -> None:
        """Raise Conflict or Unavailable if the image cannot be started."""
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
        """Record the image version of a running or unfinished session, so that cleanup keeps it."""
        version = image.image.version if image is not None and image.image is not None else None
        self._shelf.note_start(agent_id, version)

    async def dress(self, agent_id: str, wanted: SessionImage) -> Outfit:
        """Return the files and image for a start, and record the version for the handshake.

        Raises Conflict for an image that cannot be started, and Unavailable.
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

"""The current image of each agent (`current.json`), and the version that each agent is running.

A build sets the current image in one rename. The handshake refuses an agent that runs another one.
"""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.identity_dir import ImageVersion
from choir_common.wire.rpc import HelloRequest
from choir_control.images.builder import Image, ImageKind

CURRENT_FILE = "current.json"


class _CurrentImage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ImageKind
    place: str
    version: ImageVersion
    before: "_CurrentImage | None" = None
    """The image that was current before this one."""

    def image(self) -> Image:
        return Image(self.kind, self.place, self.version)


class ImageStore:
    """The images of one installation."""

    def __init__(self, home: Path) -> None:
        self._top = home / "images"
        self._running: dict[str, ImageVersion] = {}

    def get_current(self, agent_id: str) -> Image | None:
        """Return the image of the next start, or None if none was built; blocking.

        Raises Unavailable when the label cannot be read.
        """
        label = self._label(agent_id)
        return label.image() if label else None

    def set_current(self, image: Image) -> None:
        """Make this the image of the next start, atomically; blocking."""
        agent_id = image.version.agent_id
        agent_dir = self._top / agent_id
        agent_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = self._before(agent_id, image)
        label = _CurrentImage(
            kind=image.kind, place=image.place, version=image.version, before=before
        )
        partial = agent_dir / f".{CURRENT_FILE}.partial"
        with partial.open("w") as file:
            file.write(label.model_dump_json(indent=2) + "\n")
            file.flush()
            # before the rename: after a power loss the file must not be empty
            os.fsync(file.fileno())
        os.replace(partial, agent_dir / CURRENT_FILE)  # noqa: PTH105 the atomic rename is the point

    def needed_versions(self, agent_id: str) -> frozenset[str]:
        """Return the versions that must be kept: current, previous and running; blocking."""
        label = self._label(agent_id)
        images = [label, label.before] if label else []
        running = self._running.get(agent_id)
        return frozenset(image.version.image_version for image in images if image) | (
            {running.image_version} if running else frozenset()
        )

    def _before(self, agent_id: str, image: Image) -> "_CurrentImage | None":
        try:
            now = self._label(agent_id)
        except Unavailable:  # an unreadable label cannot be rolled back to
            return None
        # the same version again: keep the predecessor that can be rolled back to
        if now is None or now.version == image.version:
            return now.before if now else None
        return now.model_copy(update={"before": None})

    def _label(self, agent_id: str) -> "_CurrentImage | None":
        path = self._top / agent_id / CURRENT_FILE
        try:
            return _CurrentImage.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise Unavailable(
                _(
                    "Cannot read {path}: {kind}. `choirctl agent build {agent_id}` recreates it after you "
                    "delete it."
                ).format(path=path, kind=type(error).__name__, agent_id=agent_id)
            ) from error

    def set_running(self, agent_id: str, version: ImageVersion | None) -> None:
        """Record the version that an agent is started with; None for one without repositories."""
        if version is None:
            self._running.pop(agent_id, None)
        else:
            self._running[agent_id] = version

    def running_version(self, agent_id: str) -> ImageVersion | None:
        """Return the version that an agent was last started with, or None."""
        return self._running.get(agent_id)

    def check_hello(self, hello: HelloRequest) -> None:
        """Refuse an agent that runs another version than the one built for it.

        Raises InvalidRequest with the names of the fields that differ.
        """
        version = self._running.get(hello.agent_id)
        if version is None:
            return
        fields = (
            ("image_version", hello.image_version, version.image_version),
            ("tool_manifest_hash", hello.tool_manifest_hash, version.tool_manifest_hash),
            ("skill_manifest_hash", hello.skill_manifest_hash, version.skill_manifest_hash),
        )
        different = [name for name, reported, expected in fields if reported != expected]
        if different:
            raise InvalidRequest(
                _(
                    "{agent_id} does not run the image built for it: {different} differ from image "
                    "{image_version}. Build it again: choirctl agent build {agent_id}."
                ).format(
                    agent_id=hello.agent_id,
                    different=", ".join(different),
                    image_version=version.image_version,
                )
            )

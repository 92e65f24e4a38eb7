"""Interface `ImageBuilder` and its data types."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from choir_common.identity_dir import ImageVersion
from choir_control.images.repositories.tree import RepositoryTree

ImageKind = Literal["process", "docker"]


@dataclass(frozen=True, slots=True)
class ImageFile:
    """One file of /choir."""

    path: str
    """Relative to /choir."""
    content: Path | bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class BuildInput:
    """Input of one image build."""

    agent_id: str
    files: tuple[ImageFile, ...]
    global_tree: RepositoryTree | None
    """The global repository's files."""
    agent_tree: RepositoryTree | None
    """The agent's repository's files."""


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image; `place` is a directory, or an image's id in the engine or digest in a registry."""

    kind: ImageKind
    place: str
    version: ImageVersion


@dataclass(frozen=True, slots=True)
class SessionImage:
    """The image that a session was started with; None for Choir's default identity without an image."""

    image: Image | None


class ProgressReporter(Protocol):
    """Receiver of the progress of a build."""

    def progress(self, text: str, share: float | None = None) -> None:
        """Report the current step, and the completed share (0 to 1) of the whole."""
        ...

    def output(self, text: str) -> None:
        """Report a line of output."""
        ...


class ImageBuilder(Protocol):
    """Builds images; a failed or interrupted build leaves no usable image."""

    kind: ImageKind

    async def build(self, recipe: BuildInput, report: ProgressReporter) -> Image:
        """Build an image and return it. Raises InvalidRequest for invalid input, Unavailable."""
        ...

    def unsupported_instructions(self, recipe: BuildInput) -> tuple[str, ...]:
        """Return warnings about instructions in the repositories that this builder does not execute."""
        ...

    async def find_drift(self, image: Image) -> str | None:
        """Return why an image differs from what was built (drift), or None."""
        ...

    async def is_outdated(self, image: Image) -> bool:
        """Return whether the agent in an image is not the current one, or only a build can tell."""
        ...

    async def remove_orphans(self) -> int:
        """Remove the builds that an earlier control process left running; return how many.

        Raises Unavailable.
        """
        ...

    async def close(self) -> None:
        """Release the connections."""
        ...

    async def remove_unneeded(
        self, agent_id: str, needed_versions: Collection[str]
    ) -> tuple[str, ...]:
        """Remove the agent's images except `needed_versions`; return the names of those removed."""
        ...

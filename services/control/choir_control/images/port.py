"""Interface `ImageBuilder` and its data types.

Called by `build`; implemented by `process` and `docker`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from choir_common.choir_dir import ImageVersion
from choir_control.repos.tree import Tree

Kind = Literal["process", "docker"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of /choir."""

    path: str
    """Relative to /choir."""
    content: Path | bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """Input of one image build."""

    agent_id: str
    pieces: tuple[Piece, ...]
    shared: Tree | None
    """The global repository's files."""
    own: Tree | None
    """The agent's repository's files."""


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image; `place` is a directory or a Docker image id, depending on `kind`."""

    kind: Kind
    place: str
    version: ImageVersion


@dataclass(frozen=True, slots=True)
class SessionImage:
    """The image that a session was started with; None for Choir's default identity without an image."""

    image: Image | None


class Report(Protocol):
    """Receiver of the progress of a build."""

    def step(self, text: str, share: float | None = None) -> None:
        """Report the current step, and the completed share (0 to 1) of the whole."""
        ...

    def line(self, text: str) -> None:
        """Report a line of output."""
        ...


class ImageBuilder(Protocol):
    """Builds images; a failed or interrupted build leaves no usable image."""

    kind: Kind

    async def build(self, recipe: Recipe, report: Report) -> Image:
        """Build an image and return it. Raises BadInput for invalid input, Unavailable."""
        ...

    def not_carried_out(self, recipe: Recipe) -> tuple[str, ...]:
        """Return warnings about instructions in the repositories that this builder does not execute."""
        ...

    async def fault(self, image: Image) -> str | None:
        """Return why an image differs from what was built (drift), or None."""
        ...

    async def outdated(self, image: Image) -> bool:
        """Return whether the agent in an image is not the current one of this installation."""
        ...

    async def prune(self, agent_id: str, needed: Collection[str]) -> tuple[str, ...]:
        """Remove the agent's images except the `needed` versions; return the names of those removed."""
        ...

"""The port `ImageBuilder`: bake a merged /choir. Called by `build`; `process` and `docker` implement it."""

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
    """All that goes into one agent's image."""

    agent_id: str
    pieces: tuple[Piece, ...]
    shared: Tree | None
    """The global repository's files."""
    own: Tree | None
    """The agent's repository's files."""


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image; `place` is a directory or a Docker image, by `kind`."""

    kind: Kind
    place: str
    version: ImageVersion


@dataclass(frozen=True, slots=True)
class SessionImage:
    """What a session was started with: an image, or Choir's own identity where there is none."""

    image: Image | None


class Report(Protocol):
    """Tells somebody how far the work is."""

    def step(self, text: str, share: float | None = None) -> None:
        """Say what comes now, and what share (0 to 1) of the whole is done."""
        ...

    def line(self, text: str) -> None:
        """Pass on a line of output."""
        ...


class ImageBuilder(Protocol):
    """Makes images; a build that fails or dies leaves no trace that counts."""

    kind: Kind

    async def build(self, recipe: Recipe, report: Report) -> Image:
        """Bake an image and return it. Raises BadInput for what cannot be built, Unavailable."""
        ...

    def not_carried_out(self, recipe: Recipe) -> tuple[str, ...]:
        """Return what a build passes over although the repositories ask for it, for the build's result."""
        ...

    async def fault(self, image: Image) -> str | None:
        """Return why an image is not what was built (drift), none if it is."""
        ...

    async def outdated(self, image: Image) -> bool:
        """Tell whether the agent in an image is not the one that Choir has now."""
        ...

    async def prune(self, agent_id: str, needed: Collection[str]) -> tuple[str, ...]:
        """Remove the agent's images but those of the `needed` versions; return what was removed."""
        ...

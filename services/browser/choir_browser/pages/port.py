"""What the rooms need of a browser engine, without importing one.

Called by contexts; `chromium` implements it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_browser.guard.proxy import Pass


@dataclass(frozen=True, slots=True)
class RawPage:
    """A loaded page before it is made readable; `html` and `text` are capped."""

    url: str
    status: int
    title: str
    html: str
    text: str
    """What a person would see, as the browser lays it out."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the engine."""

    executable: Path | None
    sandbox: bool
    proxy_url: str


class Room(Protocol):
    """One isolated browser context."""

    async def load(self, url: str, timeout_s: float) -> RawPage:
        """Load a page.

        Raises DeadlineExceeded, BadInput for a page that cannot be loaded, Forbidden from the guard,
        Unavailable when the page or the browser crashed.
        """
        ...

    async def saved_state(self) -> str:
        """Give cookies and local storage, for a later room of the same agent."""
        ...

    async def close(self) -> None:
        """Destroy the room and everything in it."""
        ...


class Engine(Protocol):
    """A running browser."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        ...

    async def new_room(self, entry: Pass, state: str | None) -> Room:
        """Open an isolated context that reaches the web under `entry` alone."""
        ...

    async def close(self) -> None:
        """End the browser and its processes."""
        ...


EngineStarter = Callable[[Launch], Awaitable[Engine]]
Readable = Callable[[RawPage], str]

"""What the rooms need of a browser engine, without importing one.

Called by contexts; `chromium` implements it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_browser.blobs.shelf import Shelf
from choir_browser.guard.proxy import Pass
from choir_browser.limits.endings import Endings
from choir_common.wire.browsing import Action, BrowsedPage


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the engine."""

    executable: Path | None
    sandbox: bool
    proxy_url: str
    max_tabs: int
    shelf: Shelf
    endings: Endings


class Room(Protocol):
    """One isolated browser context."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used; a tab that crashed does not end it."""
        ...

    async def act(self, lane: str, action: Action, timeout_s: float) -> BrowsedPage:
        """Do one action in the lane's current tab, one at a time.

        Raises DeadlineExceeded, BadInput for what cannot be done, NotFound for what is not there, Forbidden
        from the guard, TooLarge, Unavailable when the page or the browser crashed.
        """
        ...

    def places(self) -> dict[str, str]:
        """Tell at which address each lane is."""
        ...

    async def renderers(self) -> frozenset[int]:
        """Tell which processes show this room's pages; empty when the engine does not say."""
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

"""Protocols of the browser engine, so that `contexts` need not import Playwright."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_browser.blobs.store import BlobStore
from choir_browser.egress.proxy import ProxyCredentials
from choir_browser.limits.kill_policy import KillReasons
from choir_common.wire.browser import Action, BrowseResponse


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How to start the engine."""

    executable: Path | None
    sandbox: bool
    proxy_url: str
    max_tabs: int
    blobs: BlobStore
    kill_reasons: KillReasons


class EngineContext(Protocol):
    """One isolated browser context."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used; a crashed tab does not end it."""
        ...

    async def run_action(self, lane: str, action: Action, timeout_s: float) -> BrowseResponse:
        """Run one action in the lane's current tab; actions of a context run one at a time.

        Raises DeadlineExceeded, InvalidRequest for an impossible action, NotFound, Conflict, Forbidden
        from the guard, TooLarge, and Unavailable if the page or the browser crashed.
        """
        ...

    def lane_urls(self) -> dict[str, str]:
        """Return each lane's URL."""
        ...

    async def renderer_pids(self) -> frozenset[int]:
        """Return the ids of the processes that show this context's pages."""
        ...

    async def saved_state(self) -> str:
        """Return cookies and local storage as text, for a later context of the same agent."""
        ...

    async def close(self) -> None:
        """Destroy the context and its pages."""
        ...


class Engine(Protocol):
    """A running browser."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        ...

    async def new_context(self, credentials: ProxyCredentials, state: str | None) -> EngineContext:
        """Open an isolated context that reaches the web only with the given proxy credentials."""
        ...

    async def close(self) -> None:
        """Stop the browser and its processes."""
        ...


class EngineLauncher(Protocol):
    """Launcher of engines."""

    async def start(self, launch: LaunchOptions) -> Engine:
        """Start an engine; raises Unavailable if that is impossible."""
        ...

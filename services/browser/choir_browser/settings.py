"""Settings of the browser service; the only module that reads its environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.settings import BusServiceSettings, ServiceSecrets


class BrowserSettings(BusServiceSettings):
    """Settings that an operator can change."""

    chromium: Path | None = None
    """CHOIR_CHROMIUM: the program to run; by default Playwright's own Chromium, else the system's."""
    browser_allow: str = ""
    """Addresses that pages may reach although they are not public: `host:port` or networks,
    comma-separated. None by default, because a page that reaches an internal address is an
    intruder."""
    browser_sandbox: Literal["auto", "on", "off"] = "auto"
    """Chromium's own sandbox; `auto` is on unless run as root, where Chromium refuses it."""
    browser_idle_s: float = Field(default=300.0, ge=1)
    """Seconds without use after which Chromium (about 400 MB) is stopped."""
    browser_max_pages: int = Field(default=6, ge=1, le=100)
    """Actions that run at once, for all agents together; each takes about 100 MB meanwhile."""
    browser_max_tabs: int = Field(default=5, ge=1, le=50)
    """Tabs that one agent may have open; each keeps its page in memory, 50 to 150 MB."""
    browser_max_file_mb: int = Field(default=50, ge=1, le=200)
    """Size limit of one download or screenshot in MB; a Telegram bot cannot send a larger file."""
    browser_agent_traffic_mb: int = Field(default=256, ge=1)
    """MB per minute that the pages of one agent may transfer, both directions; heavy pages take 20."""
    browser_agent_memory_mb: int = Field(default=1_000, ge=100)
    """Memory limit in MB for all pages of one agent; above it the largest is killed. Most take 100 each."""
    browser_memory_mb: int = Field(default=4_000, ge=500)
    """Memory limit in MB for all of Chromium; above it the largest page of any agent is killed."""
    browser_page_work_s: float = Field(default=60.0, ge=1)
    """Excess processor seconds after which a page is killed; much earlier its priority is lowered."""
    browser_socket: Path | None = None
    """Unix socket of the HTTP routes; the default is `socks/browser/browser.sock` in the home."""
    browser_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for the HTTP routes instead of the socket (containers)."""

    missing_walls: tuple[str, ...] = ()
    """What this host lacks to confine the service; set by the program that confines it."""

    @property
    def health_socket(self) -> Path:
        """Return the Unix socket on which HTTP is served unless `browser_http` is set."""
        return self.browser_socket or self.home / "socks" / "browser" / "browser.sock"

    @property
    def sandbox(self) -> bool:
        """Whether to start Chromium in its sandbox."""
        return self.browser_sandbox == "on" or (self.browser_sandbox == "auto" and os.getuid() != 0)


class BrowserSecrets(ServiceSecrets):
    """Secrets of this service."""

    nats_key: str | None = Field(default=None, repr=False)
    """Seed of the browser service's nkey; None if NATS needs none."""

    def values(self) -> list[str]:
        """Return every secret value, for the redactor."""
        return [self.nats_key] if self.nats_key else []

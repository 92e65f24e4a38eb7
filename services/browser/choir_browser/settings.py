"""The browser worker's settings; the only reader of its environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.settings import ServiceSettings


class BrowserSettings(ServiceSettings):
    """What an operator may set."""

    chromium: Path | None = None
    """CHOIR_CHROMIUM: the program to drive; by default Playwright's own, else the system's."""
    browser_allow: str = ""
    """Exceptions to the guard, `host:port` or networks, comma-separated; none, since a page that
    reaches inside is an intruder."""
    browser_sandbox: Literal["auto", "on", "off"] = "auto"
    """Chromium's own sandbox; `auto` is on unless run as root, where Chromium refuses it."""
    browser_idle_s: float = Field(default=300.0, ge=1)
    """Seconds without use after which Chromium (some 400 MB) is ended."""
    browser_max_pages: int = Field(default=6, ge=1, le=100)
    """Pages at work at once, all agents together; each takes about 100 MB while it is."""
    browser_max_tabs: int = Field(default=5, ge=1, le=50)
    """Tabs one agent may have open; each keeps its page's memory, some 50 to 150 MB."""
    browser_max_file_mb: int = Field(default=50, ge=1, le=200)
    """Size of one downloaded file or picture, in MB; a Telegram bot may send no larger one."""
    browser_agent_traffic_mb: int = Field(default=256, ge=1)
    """MB that the pages of one agent may move within a minute, both ways; heavy pages take 20."""
    browser_agent_memory_mb: int = Field(default=1_000, ge=100)
    """MB of memory for all pages of one agent, of which the fattest is ended; most take 100 each."""
    browser_memory_mb: int = Field(default=4_000, ge=500)
    """MB for all of Chromium; above it the fattest page of any agent is ended."""
    browser_page_work_s: float = Field(default=60.0, ge=1)
    """Processor seconds that a page may work without a rest before it is ended; long before that,
    all others go first."""
    browser_socket: Path | None = None
    """Unix socket of the HTTP routes; the default is `socks/browser.sock` below the home."""
    browser_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for the HTTP routes instead of the socket (containers)."""

    @property
    def health_socket(self) -> Path:
        """Return where the HTTP routes listen unless `browser_http` is set."""
        return self.browser_socket or self.home / "socks" / "browser.sock"

    @property
    def sandbox(self) -> bool:
        """Whether Chromium is to be started in its sandbox."""
        return self.browser_sandbox == "on" or (self.browser_sandbox == "auto" and os.getuid() != 0)


class BrowserSecrets(BaseModel):
    """What this service is told in confidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nats_token: str | None = Field(default=None, repr=False)
    """The bus's token; none where the bus has none."""

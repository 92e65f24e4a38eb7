"""Requests to the browser service (spec 18.2)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, Wire


class ContextRequest(Wire):
    """Open or close the agent's browser context; both are idempotent."""

    agent_id: AgentName


class BrowseRequest(Wire):
    """Load a page in the agent's own context."""

    agent_id: AgentName
    call_id: str
    url: str = Field(min_length=1, max_length=4_000)
    mode: Literal["text"] = "text"
    timeout_ms: int = Field(default=30_000, ge=100, le=120_000)


class BrowsedPage(Wire):
    """A page as text: untrusted words of a stranger, capped."""

    url: str
    """Where the load ended, after redirects."""
    status: int
    title: str
    text: str
    truncated: bool

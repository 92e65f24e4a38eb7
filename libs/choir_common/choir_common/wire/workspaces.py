"""Workspaces in the operator API: view and reset."""

from choir_common.wire.model import Wire


class WorkspaceView(Wire):
    """A configured workspace and the agent that has leased it."""

    name: str
    path: str
    agent_id: str | None
    session_id: str | None
    exists: bool
    files: int
    size: int
    """Bytes."""
    complete: bool
    """False if the count stopped at its time limit; there is more."""


class ResetWorkspace(Wire):
    """Delete everything in a workspace; its agent is stopped first."""

    confirm: str
    """The workspace's name again, as confirmation."""
    restart: bool = False
    """Start the agent again that was stopped for the reset."""


class WorkspaceReset(Wire):
    """The result of a reset."""

    name: str
    path: str
    removed: int
    """Number of deleted entries: files, links and directories."""
    left: tuple[str, ...]
    """The first ten entries that could not be deleted, and why."""
    stopped: str | None
    """The agent that was stopped for the reset."""
    restarted: bool

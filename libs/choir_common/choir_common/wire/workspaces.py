"""Workspaces as an operator sees and resets them (spec 15.4, 17.1)."""

from choir_common.wire.model import Wire


class WorkspaceView(Wire):
    """A workspace of the configuration, and who holds it."""

    name: str
    path: str
    agent_id: str | None
    session_id: str | None
    exists: bool
    files: int
    size: int
    """Bytes."""
    complete: bool
    """False: it holds more than was counted in the time there was."""


class ResetWorkspace(Wire):
    """Delete everything in a workspace; its agent is stopped first."""

    confirm: str
    """The workspace's name, once more."""
    restart: bool = False
    """Start the agent again that was stopped for it."""


class WorkspaceReset(Wire):
    """What a reset did."""

    name: str
    path: str
    removed: int
    """Entries: files, links and directories."""
    left: tuple[str, ...]
    """What could not be deleted, and why; the first ten."""
    stopped: str | None
    """The agent that was stopped for it."""
    restarted: bool

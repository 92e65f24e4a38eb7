"""The staging area `.choirtmp/` of a workspace: files on their way to and from the user.

It is not covered by the workspace's lock but has its own: the host writes to `recv` and takes files from
`send` while a command runs.
"""

import contextlib
import os
import stat

import structlog

from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace

log = structlog.get_logger("choir.agent.tools")

STAGING = ".choirtmp"
SEND = f"{STAGING}/send"
RECEIVE = f"{STAGING}/recv"
ARTIFACTS = f"{STAGING}/artifacts"
LOCK = "choirtmp"


def is_in_staging(canonical: str) -> bool:
    """Return whether a canonical path is in the staging area."""
    return canonical == STAGING or canonical.startswith(f"{STAGING}/")


def create_staging(workspace: Workspace) -> None:
    """Create the directories. Anything else at these paths is renamed, never followed or deleted."""
    for path in (STAGING, SEND, RECEIVE, ARTIFACTS):
        try:
            _move_aside(workspace, path)
            os.close(workspace.make_directories(path))
        except (ToolFailed, OSError) as error:
            # The session works without it; tools that need it report an error.
            log.warning("staging area unusable", place=path, reason=str(error))


def _move_aside(workspace: Workspace, path: str) -> None:
    parent, name = os.path.split(path)
    directory = workspace.open_directory(parent or ".")
    try:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                aside = f"{name}.aside-{os.urandom(4).hex()}"
                os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)

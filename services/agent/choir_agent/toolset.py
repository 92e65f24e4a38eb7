"""Build the tools of an agent. Called by `app`; the only place that knows them all."""

from choir_agent.control.client import Control
from choir_agent.log.session_log import SessionLog
from choir_agent.tools.builtin.fs_read import FsRead
from choir_agent.tools.builtin.fs_write import FsWrite
from choir_agent.tools.builtin.memory_query import MemoryQuery
from choir_agent.tools.builtin.memory_upsert import MemoryUpsert
from choir_agent.tools.builtin.shell import Shell
from choir_agent.tools.builtin.web_browse import WebBrowse
from choir_agent.tools.registry import Registry
from choir_agent.tools.workspace import Workspace


def make_registry(
    control: Control, workspace: Workspace, session_log: SessionLog, tmp_dir: str
) -> Registry:
    """Return the tools of this agent."""
    return Registry(
        [
            FsRead(workspace),
            FsWrite(workspace),
            Shell(workspace, tmp_dir),
            MemoryQuery(control, lambda: session_log.entries),
            MemoryUpsert(control),
            WebBrowse(control),
        ]
    )

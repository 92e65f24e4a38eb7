"""Factory for the agent's tools and skills: the only module that knows all built-in tools.

Called by `app`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from choir_agent.control.client import Control
from choir_agent.credentials.git import GitAccess
from choir_agent.log.recent_ids import RecentIds
from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import SessionState
from choir_agent.skills.registry import Skills, load_skills
from choir_agent.tools.builtin import core_spawn, skill_start, skill_transition
from choir_agent.tools.builtin.core_cancel import CoreCancel
from choir_agent.tools.builtin.core_inject import CoreInject
from choir_agent.tools.builtin.core_list import CoreList
from choir_agent.tools.builtin.core_report import CoreReport
from choir_agent.tools.builtin.core_spawn import CoreSpawn
from choir_agent.tools.builtin.email_check import EmailCheck
from choir_agent.tools.builtin.email_receive import EmailReceive
from choir_agent.tools.builtin.email_send import EmailSend
from choir_agent.tools.builtin.fs_read import FsRead
from choir_agent.tools.builtin.fs_search import FsSearch
from choir_agent.tools.builtin.fs_write import FsWrite
from choir_agent.tools.builtin.memory_compact import MemoryCompact
from choir_agent.tools.builtin.memory_query import MemoryQuery
from choir_agent.tools.builtin.memory_upsert import MemoryUpsert
from choir_agent.tools.builtin.message_send import MessageSend
from choir_agent.tools.builtin.notion_query import NotionQuery
from choir_agent.tools.builtin.propose_config_change import ProposeConfigChange
from choir_agent.tools.builtin.propose_repo_change import ProposeRepoChange
from choir_agent.tools.builtin.propose_skill import ProposeSkill
from choir_agent.tools.builtin.propose_tool import ProposeTool
from choir_agent.tools.builtin.shell import Shell
from choir_agent.tools.builtin.skill_start import SkillStart
from choir_agent.tools.builtin.skill_transition import SkillTransition
from choir_agent.tools.builtin.tts_speak import TtsSpeak
from choir_agent.tools.builtin.web_browse import WebBrowse
from choir_agent.tools.builtin.web_search import WebSearch
from choir_agent.tools.child import Children
from choir_agent.tools.external import load_external
from choir_agent.tools.registry import Registry
from choir_agent.tools.tool import Tool
from choir_agent.tools.web_client import WebClient
from choir_agent.tools.workspace import Workspace
from choir_common.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of an agent, and the skills that use them."""

    registry: Registry
    skills: Skills


def make_toolset(
    control: Control,
    workspace: Workspace,
    session_log: SessionLog,
    tmp_dir: str,
    choir_dir: Path,
    git: GitAccess,
) -> Toolset:
    """Load and build all tools and skills. Blocks on file I/O, so call it at startup only.

    Raises StartupError for an invalid skill or tool.
    """

    def state() -> SessionState:
        return session_log.state

    # Called later by the proposal tools, when `tools` is complete.
    def known() -> list[str]:
        return [tool.manifest.name for tool in tools]

    children = Children(workspace.root, tmp_dir, git.own_children, git.environment)
    tools: list[Tool] = [
        MemoryQuery(control, session_log),
        ProposeTool(control, known),
        ProposeSkill(control, known),
        MemoryUpsert(control, state),
        *_of_the_world(control, workspace, children, session_log.sent),
        *_on_jobs(state),
    ]
    of_skills = [skill_start.MANIFEST.name, skill_transition.MANIFEST.name]
    # An external tool must not use a built-in name, including the names of tools that are added below.
    tools += load_external(choir_dir, [*known(), core_spawn.MANIFEST.name, *of_skills], children)
    tools.append(CoreSpawn(state, [*_for_jobs(tools), skill_start.MANIFEST.name], SystemClock()))
    skills = load_skills(choir_dir, [*known(), *of_skills])
    tools += [SkillStart(skills, state), SkillTransition(skills, state)]
    return Toolset(Registry(tools), skills)


def _of_the_world(
    control: Control,
    workspace: Workspace,
    children: Children,
    sent: RecentIds,
) -> list[Tool]:
    web = WebClient()
    return [
        FsRead(workspace),
        FsWrite(workspace),
        FsSearch(workspace, children),
        Shell(children),
        MemoryCompact(),
        WebBrowse(control),
        WebSearch(web),
        NotionQuery(web),
        TtsSpeak(workspace, web),
        MessageSend(workspace, sent),
        EmailSend(workspace),
        EmailReceive(workspace),
        EmailCheck(),
        ProposeConfigChange(control),
        ProposeRepoChange(control),
    ]


def _on_jobs(state: Callable[[], SessionState]) -> list[Tool]:
    return [CoreInject(state), CoreCancel(state), CoreList(state), CoreReport(state)]


def _for_jobs(tools: Sequence[Tool]) -> list[str]:
    manifests = [tool.manifest for tool in tools]
    return [manifest.name for manifest in manifests if manifest.runtime.lanes != "edge"]

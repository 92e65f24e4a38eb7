"""Factory for the agent's tools and skills: the only module that knows all built-in tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.control_client.control_client import ControlClient
from choir_agent.credentials.git_access import GitAccess
from choir_agent.egress.call_connections import ConnectionAccounts
from choir_agent.egress.route import EgressAddress
from choir_agent.harnesses.harnesses import Harnesses
from choir_agent.log.session_log import SessionLog
from choir_agent.mcp_client.servers import McpServers
from choir_agent.settings import DEFAULT_TMP_DIR, AgentProcessSettings
from choir_agent.skills.skill_folders import SkillFolders, load_skill_folders
from choir_agent.skills.skill_registry import SkillRegistry, load_skills
from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.builtin import core_spawn
from choir_agent.tools.builtin.agent_ask import AgentAskTool
from choir_agent.tools.builtin.client_call import ClientCallTool, ClientToolsTool
from choir_agent.tools.builtin.core_jobs import CoreCancelTool, CoreInjectTool, CoreListTool
from choir_agent.tools.builtin.core_report import CoreReportTool
from choir_agent.tools.builtin.core_spawn import CoreSpawnTool
from choir_agent.tools.builtin.email_check import EmailCheckTool
from choir_agent.tools.builtin.email_receive import EmailReceiveTool
from choir_agent.tools.builtin.email_send import EmailSendTool
from choir_agent.tools.builtin.fs_read import FsReadTool
from choir_agent.tools.builtin.fs_search import FsSearchTool
from choir_agent.tools.builtin.fs_write import FsWriteTool
from choir_agent.tools.builtin.memory_collections import MemoryCollectionsTool
from choir_agent.tools.builtin.memory_compact import MemoryCompactTool
from choir_agent.tools.builtin.memory_query import MemoryQueryTool
from choir_agent.tools.builtin.memory_upsert import MemoryUpsertTool
from choir_agent.tools.builtin.message_send import MessageSendTool
from choir_agent.tools.builtin.notion_query import NotionQueryTool
from choir_agent.tools.builtin.propose import (
    ProposeConfigChangeTool,
    ProposeRepoChangeTool,
    ProposeSkillTool,
)
from choir_agent.tools.builtin.propose_tool import ProposeToolTool
from choir_agent.tools.builtin.schedule import MANIFESTS as SCHEDULE_MANIFESTS
from choir_agent.tools.builtin.schedule import ScheduleTool
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.builtin.skill import (
    START_MANIFEST,
    TRANSITION_MANIFEST,
    SkillStartTool,
    SkillTransitionTool,
)
from choir_agent.tools.builtin.skill_folder import (
    SkillFolderAccess,
    SkillReadTool,
    SkillRunTool,
)
from choir_agent.tools.builtin.tts_speak import TtsSpeakTool
from choir_agent.tools.builtin.web_browse import WebBrowseTool
from choir_agent.tools.builtin.web_search import WebSearchTool
from choir_agent.tools.call_launcher_client import CallLauncherClient
from choir_agent.tools.external_loader import load_external_tools
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.speech.synthesis import SpeechSynthesizer
from choir_agent.tools.tool import Tool
from choir_agent.tools.workspace import Workspace
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.clock import SystemClock
from choir_common.egress.key_placeholders import KeyProxy


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of an agent, the skills that use them, and the accounts of their connections."""

    registry: ToolRegistry
    skills: SkillRegistry
    skill_folders: SkillFolders
    files: WorkspaceFiles
    web: ApiClient
    """Client of all services that tools and voice messages use."""
    key_proxy: KeyProxy | None
    """The proxy that replaces placeholders of keys; None if the agent has none."""
    connections: ConnectionAccounts
    approvals: ApprovalClient
    mcp_servers: McpServers
    harnesses: Harnesses


def build_toolset(
    *,
    control: ControlClient,
    workspace: Workspace,
    session_log: SessionLog,
    settings: AgentProcessSettings,
    choir_dir: Path,
    git: GitAccess,
    egress: EgressAddress | None = None,
) -> Toolset:
    """Load and build all tools and skills. Blocks on file I/O, so call it at startup only.

    Raises StartupError for an invalid skill or tool.
    """
    files = WorkspaceFiles(workspace)
    key_proxy = egress.key_proxy if egress else None
    web = ApiClient(key_proxy)
    programs = _build_programs(workspace, settings, git=git, egress=egress)
    # The proposal tools read this list later, when it has the names of all tools.
    known_tools: list[str] = []
    tools: list[Tool] = [
        MemoryQueryTool(control, session_log),
        MemoryCollectionsTool(control),
        ProposeToolTool(control, known_tools),
        ProposeSkillTool(control, known_tools),
        MemoryUpsertTool(control, session_log),
        *_workspace_and_service_tools(control, workspace, files, programs, web),
        *_conversation_tools(control, workspace, session_log),
        *_core_job_tools(session_log),
    ]
    skill_tools = [START_MANIFEST.name, TRANSITION_MANIFEST.name]
    # An external tool must not use a built-in name, including the names of tools that are added below.
    reserved_names = [*_names(tools), core_spawn.MANIFEST.name, *skill_tools]
    tools += load_external_tools(choir_dir, reserved_names, programs)
    machines = load_skills(choir_dir, [*_names(tools), core_spawn.MANIFEST.name, *skill_tools])
    folders = load_skill_folders(choir_dir, machines.names())
    skills = machines.with_specs(folders.narrow_skills(machines.names()))
    tools += _skill_folder_tools(folders, session_log, programs)
    tools.append(spawn := CoreSpawnTool(session_log, SystemClock()))
    tools += [SkillStartTool(skills, session_log), SkillTransitionTool(skills, session_log)]
    known_tools += _names(tools)
    registry, approvals = ToolRegistry(tools), ApprovalClient(control)
    spawn.use_tools(registry)
    servers = McpServers(
        registry, programs, workspace, approvals=approvals, key_proxy=key_proxy, choir=choir_dir
    )
    return Toolset(
        *(registry, skills, folders, files, web, key_proxy, ConnectionAccounts(egress)),
        *(approvals, servers, Harnesses(registry, programs)),
    )


def _build_programs(
    workspace: Workspace,
    settings: AgentProcessSettings,
    *,
    git: GitAccess,
    egress: EgressAddress | None,
) -> ProgramRunner:
    if settings.tmp_dir != DEFAULT_TMP_DIR:
        workspace.quota.include(Path(settings.tmp_dir))
    return ProgramRunner(
        workspace.root,
        settings.tmp_dir,
        git=git,
        egress=egress,
        launcher=CallLauncherClient(settings.call_launcher),
        quota=workspace.quota,
    )


def _workspace_and_service_tools(
    control: ControlClient,
    workspace: Workspace,
    files: WorkspaceFiles,
    programs: ProgramRunner,
    web: ApiClient,
) -> list[Tool]:
    return [
        FsReadTool(workspace, files),
        FsWriteTool(workspace),
        FsSearchTool(workspace, programs),
        ShellTool(programs),
        MemoryCompactTool(),
        WebBrowseTool(control),
        WebSearchTool(web),
        NotionQueryTool(web),
        TtsSpeakTool(SpeechSynthesizer(workspace, web)),
        EmailSendTool(workspace),
        EmailReceiveTool(workspace),
        EmailCheckTool(),
        ProposeConfigChangeTool(control),
        ProposeRepoChangeTool(control),
    ]


def _conversation_tools(
    control: ControlClient, workspace: Workspace, session_log: SessionLog
) -> list[Tool]:
    return [
        MessageSendTool(workspace, session_log.sent_call_ids),
        AgentAskTool(control, session_log),
        ClientToolsTool(control),
        ClientCallTool(control),
        *(ScheduleTool(manifest, control, session_log) for manifest in SCHEDULE_MANIFESTS),
    ]


def _core_job_tools(session_log: SessionLog) -> list[Tool]:
    return [
        CoreInjectTool(session_log),
        CoreCancelTool(session_log),
        CoreListTool(session_log),
        CoreReportTool(session_log),
    ]


def _skill_folder_tools(
    folders: SkillFolders, session_log: SessionLog, programs: ProgramRunner
) -> list[Tool]:
    """Return the tools for skill folders; an agent without one does not have them."""
    if not folders:
        return []
    access = SkillFolderAccess(folders, session_log)
    return [SkillReadTool(access), SkillRunTool(access, programs)]


def _names(tools: Sequence[Tool]) -> list[str]:
    return [tool.manifest.name for tool in tools]

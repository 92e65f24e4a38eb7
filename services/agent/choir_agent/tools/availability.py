"""What the current settings provide for tools. Pure.

Decides which tools cannot work, so that models are not offered them, and selects the secrets that a tool may
receive. Settings change while an agent runs, so the registry, which is immutable, cannot contain this.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import assert_never

from choir_agent.settings import CurrentSettings
from choir_agent.skills.skill_folders import READ_TOOL, RUN_TOOL
from choir_agent.tools.manifest import SecretResource, ToolManifest
from choir_common.wire.agent_questions import ASK_TOOL
from choir_common.wire.client_tools import CALL_TOOL, LIST_TOOL
from choir_common.wire.config import AgentSettings

PROPOSALS = "choir.propose."
CONFIG_CHANGE = "choir.propose.config_change"
BROWSE = "choir.web.browse"
SKILL_FOLDER_TOOLS = (READ_TOOL, RUN_TOOL)


def unavailable_tools(manifests: Iterable[ToolManifest], settings: AgentSettings) -> frozenset[str]:
    """Return the canonical names of tools that are switched off or lack a resource they need."""
    return frozenset(
        manifest.name
        for manifest in manifests
        if switch_of(manifest.name, settings) or _lacks(manifest, settings)
    )


def switch_of(name: str, settings: AgentSettings) -> str:
    """Return the setting in config.json that switches the tool off, or an empty string."""
    features = settings.features
    if name.startswith(PROPOSALS):
        return "" if features.proposals else "features.proposals"
    if name in SKILL_FOLDER_TOOLS:
        return "" if settings.skills else "skills"
    if name in (LIST_TOOL, CALL_TOOL):
        return "" if settings.has_client_tools else "choirctl client add --scope tools"
    if name == ASK_TOOL:
        return "" if settings.may_ask else "may_ask"
    return "features.browsing" if name == BROWSE and not features.browsing else ""


def _lacks(manifest: ToolManifest, settings: AgentSettings) -> bool:
    if manifest.name.startswith(PROPOSALS) and manifest.name != CONFIG_CHANGE:
        # An approved proposal becomes a commit in the agent's repository, so it needs one.
        return not settings.has_repository
    return any(not _is_bound(need, settings) for need in manifest.runtime.secret_resources)


def _is_bound(resource: SecretResource, settings: AgentSettings) -> bool:
    match resource:
        case "git_identity":
            return settings.git_identity is not None
        case "notion":
            return settings.notion is not None
        case "email":
            return settings.email is not None
        case "search":
            return settings.search is not None
        case "voice_profile":
            return settings.voice is not None
        case _:
            assert_never(resource)


def secrets_for(
    resources: Iterable[SecretResource], current: CurrentSettings
) -> Mapping[SecretResource, str]:
    """Return the secrets of the named resources, and no others.

    A resource without a binding, or without a value in control, is omitted.
    """
    secrets: dict[SecretResource, str] = {}
    for resource in resources:
        value = current.secret(_secret_name(resource, current.settings))
        if value:
            secrets[resource] = value
    return MappingProxyType(secrets)


def _secret_name(resource: SecretResource, settings: AgentSettings) -> str | None:
    match resource:
        case "git_identity":
            return settings.git_identity.secret if settings.git_identity else None
        case "notion":
            return settings.notion.secret if settings.notion else None
        case "email":
            return settings.email.secret if settings.email else None
        case "search":
            return settings.search.secret if settings.search else None
        case "voice_profile":
            return settings.voice.tts.secret if settings.voice else None
        case _:
            assert_never(resource)

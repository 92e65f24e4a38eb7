"""Decision which tools cannot work with the current settings, so that models are not offered them. Pure.

Settings change while an agent runs, so the registry, which is immutable, cannot contain this.
"""

from collections.abc import Iterable
from typing import assert_never

from choir_agent.credentials.tool_secrets import SecretResource
from choir_agent.tools.manifest import ToolManifest
from choir_common.wire.config import AgentSettings

PROPOSALS = "choir.propose."
CONFIG_CHANGE = "choir.propose.config_change"
BROWSE = "choir.web.browse"


def unavailable_tools(manifests: Iterable[ToolManifest], settings: AgentSettings) -> frozenset[str]:
    """Return the canonical names of tools that are switched off or lack a resource they need."""
    return frozenset(
        manifest.name
        for manifest in manifests
        if is_switched_off(manifest.name, settings) or _lacks(manifest, settings)
    )


def is_switched_off(name: str, settings: AgentSettings) -> bool:
    """Return whether `features` switches the tool off."""
    features = settings.features
    if name.startswith(PROPOSALS):
        return not features.proposals
    return name == BROWSE and not features.browsing


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

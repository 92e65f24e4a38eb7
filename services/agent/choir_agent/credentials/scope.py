"""Narrow an agent's secrets to those a tool may have (spec 14.3): pure.

Called by the arbiter when it makes a call's context; what comes next is the tool.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, assert_never

from choir_agent.settings import CurrentSettings
from choir_common.wire.config import AgentSettings

SecretResource = Literal["git_identity", "notion", "email", "search", "voice_profile"]
"""A resource the agent is bound to; its secret reaches only the tools that name it."""


def secrets_for(
    resources: Iterable[SecretResource], current: CurrentSettings
) -> Mapping[SecretResource, str]:
    """Return the secrets of the resources a tool's manifest names, and no others.

    One that the agent is not bound to, or whose value control does not have, is left out.
    """
    found: dict[SecretResource, str] = {}
    for resource in resources:
        value = current.secret(_name_of(resource, current.settings))
        if value:
            found[resource] = value
    return MappingProxyType(found)


def _name_of(resource: SecretResource, settings: AgentSettings) -> str | None:
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

"""Selection of the secrets that a tool may receive. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, assert_never

from choir_agent.settings import CurrentSettings
from choir_common.wire.config import AgentSettings

SecretResource = Literal["git_identity", "notion", "email", "search", "voice_profile"]
"""A resource that an agent can be bound to; its secret reaches only tools that name it in their
manifest."""


def secrets_for(
    resources: Iterable[SecretResource], current: CurrentSettings
) -> Mapping[SecretResource, str]:
    """Return the secrets of the named resources, and no others.

    A resource without a binding, or without a value in control, is omitted.
    """
    secrets: dict[SecretResource, str] = {}
    for resource in resources:
        value = current.secret(_name_of(resource, current.settings))
        if value:
            secrets[resource] = value
    return MappingProxyType(secrets)


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

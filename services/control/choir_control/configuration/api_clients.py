"""Conversations of the clients of the OpenAI-compatible API, as a part of the configuration. Pure.

A client is a row of the database. It has a conversation of its own with each of its agents, on a gateway of
type console, which is in the configuration as long as the client is not revoked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from choir_common.wire.api_clients import CONVERSATION_SCOPES, ApiScope, client_dm
from choir_common.wire.channel_config import DmConfig
from choir_common.wire.config import Config
from choir_control.configuration.people import Identity


@dataclass(frozen=True, slots=True)
class ApiClient:
    """A program with a token."""

    name: str
    digest: bytes
    """SHA-256 of the token."""
    person: str | None
    """The person whose rights it has; None: the operator of a configuration without people."""
    agents: tuple[str, ...]
    """Empty: all."""
    scopes: tuple[ApiScope, ...]
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


def find_console_gateway(config: Config) -> str | None:
    """Return the first gateway of type console by name; None if there is none."""
    return next(
        (it for it in sorted(config.gateways) if config.gateways[it].type == "console"), None
    )


def add_clients(
    config: Config, clients: Iterable[ApiClient]
) -> tuple[Config, Mapping[str, str], Mapping[Identity, str]]:
    """Return the configuration with the clients' conversations, the client of each, and their people.

    config.json takes precedence: a conversation of the same name stays as it is. A client of a person who is
    no longer in `people` has no conversations, and neither has one whose scopes need none.
    """
    gateway = find_console_gateway(config)
    dms, owners, people, agents = dict(config.dms), {}, {}, dict(config.agents)
    for client in sorted(clients, key=lambda it: it.name):
        is_orphan = client.person is not None and client.person not in config.people
        if gateway is None or client.revoked_at is not None or is_orphan:
            continue
        if CONVERSATION_SCOPES.isdisjoint(client.scopes):
            continue
        for agent_id in sorted(client.agents or config.agents):
            dm = client_dm(client.name, agent_id)
            if agent_id not in config.agents or dm in config.dms:
                continue
            # the name is the user, too: each conversation has an identity of its own
            dms[dm] = DmConfig(gateway=gateway, user_id=dm)
            owners[dm] = client.name
            if client.person is not None:
                people[(gateway, dm)] = client.person
            agent = agents[agent_id]
            conversations = (*agent.conversations, dm)
            agents[agent_id] = agent.model_copy(update={"conversations": conversations})
    if not owners:
        return config, {}, {}
    return config.model_copy(update={"dms": dms, "agents": agents}), owners, people


def find_tool_dms(client_dms: Mapping[str, str], clients: Iterable[ApiClient]) -> frozenset[str]:
    """Return the conversations of clients that may offer tools of their own."""
    names = {client.name for client in clients if "tools" in client.scopes}
    return frozenset(dm for dm, client in client_dms.items() if client in names)

"""Messages between control and the egress service."""

from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, WireModel
from choir_common.wire.policy import Pattern, PolicyRule

MAX_AGENTS = 10_000
CALLS_PATH = "/v1/calls/"
"""Path of an agent's proxy, followed by a call id: the connections of the call, for the agent itself."""
HostAndPort = Annotated[str, StringConstraints(min_length=3, max_length=300)]

ServerOrigin = Annotated[
    str, StringConstraints(pattern=r"^https?://[^/@\s]+:\d{1,5}$", max_length=300)
]


class ProxiedKey(WireModel):
    """A key that the proxy puts in place of its placeholder, in requests to its own servers only."""

    placeholder: str = Field(pattern=r"^choir-placeholder-[0-9a-f]{40}$", repr=False)
    value: str = Field(pattern=r"^[\x21-\x7e]+$", max_length=10_000, repr=False)
    servers: tuple[ServerOrigin, ...]
    """The servers that get it, as `https://host:port` or `http://host:port`."""
    tools: tuple[str, ...] = ()
    """Tools whose calls may use it, too; the agent itself always may."""


class AgentEgress(WireModel):
    """What one running agent may reach."""

    agent_id: AgentName
    key: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    """Key of the proxy passwords of this agent and its tool calls."""
    own_hosts: tuple[HostAndPort, ...] = ()
    """`host:port` of the servers in its settings, which the agent itself may reach at any address."""
    tool_hosts: tuple[HostAndPort, ...] = ()
    """`host:port` of servers that its tools may reach at any address: those of git identities."""
    rules: tuple[PolicyRule, ...] = ()
    """Rules of the policy on hosts."""
    proxied_keys: tuple[ProxiedKey, ...] = Field(default=(), repr=False)
    """Keys that the agent does not get."""
    known_hosts: tuple[Pattern, ...] = ()
    """Patterns of hosts that its tools may reach; a tool call reaches others only if the agent says so."""


class EgressTable(WireModel):
    """The running agents; others have no access."""

    agents: tuple[AgentEgress, ...] = Field(max_length=MAX_AGENTS)

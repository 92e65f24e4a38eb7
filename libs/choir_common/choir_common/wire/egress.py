"""Messages between control and the egress service."""

from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, WireModel
from choir_common.wire.policy import PolicyRule

MAX_AGENTS = 10_000
HostAndPort = Annotated[str, StringConstraints(min_length=3, max_length=300)]


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


class EgressTable(WireModel):
    """The running agents; others have no access."""

    agents: tuple[AgentEgress, ...] = Field(max_length=MAX_AGENTS)

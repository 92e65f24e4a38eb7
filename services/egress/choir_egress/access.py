"""Decision on one connection: may this user of an agent's proxy reach this host? Pure."""

from datetime import datetime

from choir_common.egress.addresses import Allowlist, can_be_public, parse_allowlist
from choir_common.egress.credentials import ProxyIdentity
from choir_common.errors import ChoirError, Forbidden, Unavailable
from choir_common.hosts import is_known_host
from choir_common.policy import Destinations, PolicyCall, decide
from choir_common.wire.connections import ConnectionDecision
from choir_common.wire.egress import AgentEgress

CONFIGURED = "config.json"


class NewHost(Forbidden):
    """Nobody has named this host or agreed to it."""

    code = "new_host"


def check_host(
    agent: AgentEgress, user: ProxyIdentity, host: str, *, exceptions: Allowlist, now: datetime
) -> None:
    """Raise Forbidden if a rule of the policy on hosts forbids the host to this tool, or NewHost.

    `ask` forbids, too: a person cannot be asked while a connection waits. A new name is refused before it is
    resolved, because a name server could receive data by it.
    """
    if not user.tool:
        return
    name = host.lower().rstrip(".")
    call = PolicyCall(
        agent_id=agent.agent_id,
        tool=user.tool,
        lane="edge",
        role="user",
        arguments={},
        destinations=Destinations(hosts=(name,)),
    )
    decision = decide(agent.rules, call, now, needs_approval=False)
    if decision.action == "allow" and user.is_limited:
        if is_known_host(name, user.hosts):
            return
        raise Forbidden(
            f"{host} is not among the hosts that the manifest of {user.tool} names: "
            f"{', '.join(user.hosts)}."
        )
    if decision.action == "allow":
        is_allowed = decision.source == "config" or not can_be_public(name)
        configured = allowlist_of(agent, user, exceptions).entries
        patterns = (*agent.known_hosts, *user.hosts, *(entry.host or "" for entry in configured))
        if is_allowed or is_known_host(name, patterns):
            return
        raise NewHost(
            f"{host} is new to this agent, so the connection was refused: a person must agree first."
        )
    reason = f" ({decision.why})" if decision.why else ""
    raise Forbidden(
        f"The owner's policy does not let {user.tool} reach {host}{reason}. Only the owner can "
        "change that, with a rule in `policy` that allows this host."
    )


def decision_for(error: ChoirError) -> ConnectionDecision:
    """Return the decision with which a connection is counted that ended with this error."""
    match error:
        case NewHost():
            return "new_host"
        case Unavailable():
            return "failed"
        case _:
            return "refused"


def allowlist_of(agent: AgentEgress, user: ProxyIdentity, exceptions: Allowlist) -> Allowlist:
    """Return the addresses that this user may reach although they are not public."""
    hosts = agent.tool_hosts if user.tool else agent.own_hosts
    configured = parse_allowlist(",".join(hosts), CONFIGURED)
    if not user.tool:
        return configured
    return Allowlist((*exceptions.entries, *configured.entries), exceptions.setting)

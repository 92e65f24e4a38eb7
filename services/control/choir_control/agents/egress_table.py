"""What agents may reach at the egress proxy, derived from the configuration. Pure."""

from collections.abc import Sequence

from choir_common.wire.config import Config
from choir_common.wire.egress import AgentEgress, ProxiedKey
from choir_common.wire.policy import PolicyRule
from choir_control.configuration.servers import (
    endpoints,
    git_servers,
    known_hosts,
    mail_servers,
    network_address,
)


def agent_egress(
    config: Config,
    agent_id: str,
    key: str,
    own_urls: tuple[str, ...],
    proxied_keys: tuple[ProxiedKey, ...] = (),
    *,
    allowed_hosts: Sequence[str] = (),
) -> AgentEgress:
    """Return what one agent may reach; `own_urls` are further servers of the agent itself.

    `allowed_hosts` are those that a person has named or allowed.
    """
    urls = [*endpoints(config), *own_urls]
    own = [address for url in urls if (address := network_address(url))]
    return AgentEgress(
        agent_id=agent_id,
        key=key,
        own_hosts=tuple(sorted({*own, *mail_servers(config)})),
        tool_hosts=tuple(sorted(set(git_servers(config)))),
        proxied_keys=proxied_keys,
        rules=tuple(rule for rule in config.policy if _is_about_hosts(rule, agent_id)),
        known_hosts=(*known_hosts(config), *allowed_hosts),
    )


def _is_about_hosts(rule: PolicyRule, agent_id: str) -> bool:
    """Return whether a rule decides on hosts, with conditions that hold for a connection."""
    others = rule.lanes or rule.roles or rule.recipients or rule.paths or rule.arguments
    return bool(rule.hosts) and not others and (not rule.agents or agent_id in rule.agents)

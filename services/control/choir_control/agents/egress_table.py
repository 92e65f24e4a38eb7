"""What agents may reach at the egress proxy, derived from the configuration. Pure."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from choir_common.wire.config import Config
from choir_common.wire.egress import AgentEgress, ProxiedKey
from choir_common.wire.policy import PolicyRule

DEFAULT_PORTS = {"http": 80, "https": 443}
GIT_PORTS = (443, 22)


def agent_egress(
    config: Config,
    agent_id: str,
    key: str,
    own_urls: tuple[str, ...],
    proxied_keys: tuple[ProxiedKey, ...] = (),
) -> AgentEgress:
    """Return what one agent may reach; `own_urls` are further servers of the agent itself."""
    urls = [*_endpoints(config), *own_urls]
    own = [address for url in urls if (address := network_address(url))]
    return AgentEgress(
        agent_id=agent_id,
        key=key,
        own_hosts=tuple(sorted({*own, *_mail_servers(config)})),
        tool_hosts=tuple(sorted(set(_git_hosts(config)))),
        proxied_keys=proxied_keys,
        rules=tuple(rule for rule in config.policy if _is_about_hosts(rule, agent_id)),
    )


def _is_about_hosts(rule: PolicyRule, agent_id: str) -> bool:
    """Return whether a rule decides on hosts, with conditions that hold for a connection."""
    others = rule.lanes or rule.roles or rule.recipients or rule.paths or rule.arguments
    return bool(rule.hosts) and not others and (not rule.agents or agent_id in rule.agents)


def _endpoints(config: Config) -> Iterator[str]:
    for entries in (
        config.models,
        config.tts,
        config.transcription,
        config.notion_integrations,
        config.search,
    ):
        yield from (entry.endpoint for entry in entries.values())


def _mail_servers(config: Config) -> Iterator[str]:
    for account in config.email_accounts.values():
        yield f"{account.smtp_host}:{account.smtp_port}"
        yield f"{account.imap_host}:{account.imap_port}"


def _git_hosts(config: Config) -> Iterator[str]:
    for identity in config.git_identities.values():
        for host in identity.hosts:
            name, _, port = host.partition(":")
            yield from (f"{name}:{number}" for number in ([port] if port else GIT_PORTS))


def network_address(url: str) -> str:
    """Return `host:port` of a URL; empty if it has none."""
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}"

"""Servers that config.json names, and the hosts that agents reach without a question. Pure."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from choir_common.wire.config import Config

DEFAULT_PORTS = {"http": 80, "https": 443}
GIT_PORTS = (443, 22)


def known_hosts(config: Config) -> tuple[str, ...]:
    """Return patterns of the hosts that need no question: `known_hosts`, and the servers of config.json."""
    servers = (
        *map(network_address, endpoints(config)),
        *mail_servers(config),
        *git_servers(config),
    )
    hosts = (server.rpartition(":")[0] for server in servers if server)
    return tuple(dict.fromkeys((*config.known_hosts, *hosts)))


def endpoints(config: Config) -> Iterator[str]:
    """Yield the base URLs of models and other services."""
    for entries in (
        config.models,
        config.tts,
        config.transcription,
        config.notion_integrations,
        config.search,
    ):
        yield from (entry.endpoint for entry in entries.values())
    yield from (server.url for server in config.mcp.servers.values() if server.url is not None)


def mail_servers(config: Config) -> Iterator[str]:
    """Yield `host:port` of the mail servers."""
    for account in config.email_accounts.values():
        yield f"{account.smtp_host}:{account.smtp_port}"
        yield f"{account.imap_host}:{account.imap_port}"


def git_servers(config: Config) -> Iterator[str]:
    """Yield `host:port` of the hosts of git identities."""
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

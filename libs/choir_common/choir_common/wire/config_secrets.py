"""The secrets that a configuration names."""

from choir_common.wire.config import Config


def secret_references(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the secrets that a configuration names, each with the config paths that use it."""
    names: dict[str, list[str]] = {}
    for section, entries in config.model_dump(mode="json").items():
        sections = {"": entries} if section in ("backup", "embedding", "postgres") else entries
        for name, entry in sections.items() if isinstance(sections, dict) else ():
            secret = entry.get("secret") if isinstance(entry, dict) else None
            if secret is not None:
                names.setdefault(secret, []).append(f"{section}.{name}".rstrip("."))
    for name, gateway in config.gateways.items():
        if gateway.webhook is not None:
            names.setdefault(gateway.webhook.secret, []).append(f"gateways.{name}.webhook")
        if gateway.app_secret is not None:
            names.setdefault(gateway.app_secret, []).append(f"gateways.{name}.app_secret")
        if gateway.whatsapp is not None:
            for secret in (gateway.whatsapp.app_secret, gateway.whatsapp.verify_secret):
                names.setdefault(secret, []).append(f"gateways.{name}.whatsapp")
    for name, server in config.mcp.servers.items():
        for secret in server.secret_names():
            names.setdefault(secret, []).append(f"mcp.servers.{name}")
    for name, harness in config.harnesses.items():
        for secret in harness.secret_names():
            names.setdefault(secret, []).append(f"harnesses.{name}")
    return {secret: tuple(places) for secret, places in sorted(names.items())}

"""`/v1/secrets`: list names, and reload secrets.json. Values are never returned."""

from fastapi import APIRouter

from choir_common.wire.config import secret_uses
from choir_common.wire.configuring import SecretName, SecretsApplied
from choir_common.wire.operator import Page
from choir_control.configuration.current import Configuration
from choir_control.secrets.apply import SecretApply
from choir_control.secrets.vault import Vault
from choir_control.sessions.config_news import ConfigNews


def secret_routes(
    configuration: Configuration, vault: Vault, apply: SecretApply, news: ConfigNews
) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/secrets", tags=["secrets"])

    @router.get("")
    async def list_secrets() -> Page[SecretName]:
        """List the names of the secrets that are set or that the configuration refers to."""
        uses, known = secret_uses(configuration.current.config), vault.names()
        names = sorted(known | uses.keys())
        return Page(
            items=[
                SecretName(name=name, set=name in known, used_by=uses.get(name, ()))
                for name in names
            ]
        )

    @router.post("/apply")
    async def apply_secrets() -> SecretsApplied:
        """Reload all of secrets.json; agents and the gateway are notified and fetch what they need."""
        done = await apply.apply()
        uses = secret_uses(configuration.current.config)
        return SecretsApplied(
            version=done.version,
            added=done.swap.added,
            changed=done.swap.changed,
            removed=done.swap.removed,
            overridden=done.overridden,
            at_restart=done.at_restart,
            missing=tuple(sorted(uses.keys() - vault.names())),
            report=await news.report(),
        )

    return router

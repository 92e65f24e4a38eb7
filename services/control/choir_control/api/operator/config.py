"""`/v1/config`: show the configuration, stage a new one, apply it, and report who has it.

Rules: `docs/design/configuration.md`.

`/v1/secrets`: list names, and reload secrets.json. Values are never returned.
"""

from fastapi import APIRouter, Request

from choir_common.wire.config import secret_references
from choir_common.wire.config_api import (
    ApplyConfig,
    ConfigApplied,
    ConfigDiff,
    ConfigProgress,
    ConfigView,
    SecretName,
    SecretsApplied,
)
from choir_common.wire.config_schema import config_schema
from choir_common.wire.model import JsonObject
from choir_common.wire.operator import Page
from choir_control.agents.rollout.config_staging import ConfigStaging, StagedDifference
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.api.body import parse_request_body
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.reload import SecretReloader
from choir_control.configuration.secrets.store import SecretStore


def config_routes(
    configuration: ConfigService, staging: ConfigStaging, config_notifier: ConfigVersionTracker
) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/config", tags=["config"])

    @router.get("")
    async def show_config() -> ConfigView:
        """Show the active configuration; secrets by name only."""
        snapshot = configuration.current
        return ConfigView(
            version=snapshot.version,
            source="last-good" if configuration.note else "file",
            note=configuration.note,
            config=snapshot.config.model_dump(mode="json"),
            staged=staging.waiting,
        )

    @router.get("/schema")
    async def show_schema() -> JsonObject:
        """Return the JSON Schema of config.json."""
        return config_schema()

    @router.get("/diff")
    async def diff_config() -> ConfigDiff:
        """Compare the staged configuration with the active one; 409 when nothing is staged."""
        return _diff(await staging.diff())

    @router.get("/report")
    async def report_config() -> ConfigProgress:
        """Report for each running agent and the gateway whether it has the active version."""
        return await config_notifier.report()

    @router.post("/load")
    async def load_config() -> ConfigDiff:
        """Stage config.json and all repositories, in a minute at most; on 400 nothing is staged."""
        return _diff(await staging.load())

    @router.post("/apply", openapi_extra=_BODY)
    async def apply_config(request: Request) -> ConfigApplied:
        """Apply the staged configuration; 409 when nothing is staged, or not what you were shown."""
        asked = await parse_request_body(request, ApplyConfig)
        snapshot, done = await staging.apply(asked.digest)
        return ConfigApplied(
            version=snapshot.version,
            changes=done.changes,
            warnings=done.warnings,
            report=await config_notifier.report(),
        )

    return router


_BODY = {
    "requestBody": {"content": {"application/json": {"schema": ApplyConfig.model_json_schema()}}}
}


def _diff(found: StagedDifference) -> ConfigDiff:
    return ConfigDiff(
        running_version=found.running_version,
        digest=found.staged.digest,
        staged_at=found.staged.at,
        changes=found.changes,
        repos=found.repos,
        warnings=found.warnings,
    )


def secret_routes(
    configuration: ConfigService,
    vault: SecretStore,
    apply: SecretReloader,
    config_notifier: ConfigVersionTracker,
) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/secrets", tags=["secrets"])

    @router.get("")
    async def list_secrets() -> Page[SecretName]:
        """List the names of the secrets that are set or that the configuration refers to."""
        uses, known = secret_references(configuration.current.config), vault.names()
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
        uses = secret_references(configuration.current.config)
        return SecretsApplied(
            version=done.version,
            added=done.swap.added,
            changed=done.swap.changed,
            removed=done.swap.removed,
            overridden=done.overridden,
            at_restart=done.at_restart,
            missing=tuple(sorted(uses.keys() - vault.names())),
            report=await config_notifier.report(),
        )

    return router

"""`/v1/config` and `/v1/secrets`: show, edit, stage and apply the configuration; set and reload secrets.

Values of secrets are never returned. Rules: `docs/design/configuration.md`.
"""

from fastapi import APIRouter, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.config_api import (
    ApplyConfig,
    ConfigApplied,
    ConfigDiff,
    ConfigProgress,
    ConfigText,
    ConfigView,
    SecretName,
    SecretsApplied,
    SecretStored,
    SetSecret,
    WriteConfigText,
)
from choir_common.wire.config_schema import config_schema
from choir_common.wire.config_secrets import secret_references
from choir_common.wire.model import JsonObject
from choir_common.wire.operator import Page
from choir_control.agents.rollout.config_staging import ConfigStaging, StagedDifference
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.configuration.current import ConfigService
from choir_control.configuration.file_editor import ConfigFileEditor
from choir_control.configuration.secrets.reload import SecretReloader
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.secrets.writer import SecretWriter

_APPLY_BODY = {
    "requestBody": {"content": {"application/json": {"schema": ApplyConfig.model_json_schema()}}}
}


def config_routes(
    configuration: ConfigService,
    staging: ConfigStaging,
    config_versions: ConfigVersionTracker,
    editor: ConfigFileEditor,
) -> APIRouter:
    """Return the router of the configuration."""
    router = ServiceRouter(prefix="/config", tags=["config"])
    router.include_router(_staging_routes(staging, config_versions))

    @router.get("")
    async def show_config() -> ConfigView:
        """Show the active configuration; secrets by name only."""
        snapshot = configuration.current
        return ConfigView(
            version=snapshot.version,
            source="last-good" if configuration.note else "file",
            note=configuration.note,
            config=configuration.declared.model_dump(mode="json"),
            staged=staging.waiting,
        )

    @router.get("/file")
    async def read_config_file() -> ConfigText:
        """Return the text of config.json, which may have changes that are not applied."""
        return await editor.read()

    @router.put("/file", openapi_extra=openapi_body(WriteConfigText))
    async def write_config_file(request: Request) -> ConfigText:
        """Replace the text of config.json; 409 when it was changed since, 400 when it is not usable."""
        body = await parse_request_body(request, WriteConfigText)
        return await editor.save(body.text, body.digest)

    @router.get("/schema")
    async def show_schema() -> JsonObject:
        """Return the JSON Schema of config.json."""
        return config_schema()

    @router.get("/report")
    async def report_config() -> ConfigProgress:
        """Report for each running agent and the gateway whether it has the active version."""
        return await config_versions.report()

    return router


def _staging_routes(staging: ConfigStaging, config_versions: ConfigVersionTracker) -> APIRouter:
    router = ServiceRouter()

    @router.get("/diff")
    async def diff_config() -> ConfigDiff:
        """Compare the staged configuration with the active one; 409 when nothing is staged."""
        return _config_diff(await staging.diff())

    @router.post("/load")
    async def load_config() -> ConfigDiff:
        """Stage config.json and all repositories, in a minute at most; on 400 nothing is staged."""
        return _config_diff(await staging.load())

    @router.post("/apply", openapi_extra=_APPLY_BODY)
    async def apply_config(request: Request) -> ConfigApplied:
        """Apply the staged configuration; 409 when nothing is staged, or not what you were shown."""
        body = await parse_request_body(request, ApplyConfig)
        snapshot, difference = await staging.apply(body.digest)
        return ConfigApplied(
            version=snapshot.version,
            changes=difference.changes,
            warnings=difference.warnings,
            report=await config_versions.report(),
        )

    return router


def _config_diff(difference: StagedDifference) -> ConfigDiff:
    return ConfigDiff(
        running_version=difference.running_version,
        digest=difference.staged.digest,
        staged_at=difference.staged.at,
        changes=difference.changes,
        repos=difference.repos,
        warnings=difference.warnings,
    )


def secret_routes(
    configuration: ConfigService,
    secrets: SecretStore,
    reloader: SecretReloader,
    writer: SecretWriter,
    config_versions: ConfigVersionTracker,
) -> APIRouter:
    """Return the router of the secrets."""
    router = ServiceRouter(prefix="/secrets", tags=["secrets"])

    @router.get("")
    async def list_secrets() -> Page[SecretName]:
        """List the names of the secrets that are set or that the configuration refers to."""
        uses, set_names = secret_references(configuration.current.config), secrets.names()
        names = sorted(set_names | uses.keys())
        return Page(
            items=[
                SecretName(name=name, set=name in set_names, used_by=uses.get(name, ()))
                for name in names
            ]
        )

    @router.put("/{name}", openapi_extra=openapi_body(SetSecret))
    async def store_secret(name: str, request: Request) -> SecretStored:
        """Store the value of a secret in secrets.json; no route returns it."""
        body = await parse_request_body(request, SetSecret)
        return SecretStored(name=name, replaced=await writer.store(name, body.value))

    @router.post("/apply")
    async def apply_secrets() -> SecretsApplied:
        """Reload all of secrets.json; agents and the gateway are notified and fetch what they need."""
        reload = await reloader.apply()
        uses = secret_references(configuration.current.config)
        return SecretsApplied(
            version=reload.version,
            added=reload.swap.added,
            changed=reload.swap.changed,
            removed=reload.swap.removed,
            overridden=reload.overridden,
            at_restart=reload.at_restart,
            missing=tuple(sorted(uses.keys() - secrets.names())),
            report=await config_versions.report(),
        )

    return router

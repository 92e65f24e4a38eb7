"""`/v1/config`: show the configuration, stage a new one, apply it, and report who has it.

Rules: `docs/design/configuration.md`.
"""

from fastapi import APIRouter, Request

from choir_common.wire.config_schema import config_schema
from choir_common.wire.configuring import (
    ApplyConfig,
    ConfigApplied,
    ConfigDiff,
    ConfigReport,
    ConfigView,
)
from choir_common.wire.json import JsonObject
from choir_control.configuration.current import Configuration
from choir_control.configuration.staging import Difference, Staging
from choir_control.rpc.body import read_body
from choir_control.sessions.config_news import ConfigNews


def config_routes(configuration: Configuration, staging: Staging, news: ConfigNews) -> APIRouter:
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
    async def report_config() -> ConfigReport:
        """Report for each running agent and the gateway whether it has the active version."""
        return await news.report()

    @router.post("/load")
    async def load_config() -> ConfigDiff:
        """Stage config.json and all repositories, in a minute at most; on 400 nothing is staged."""
        return _diff(await staging.load())

    @router.post("/apply", openapi_extra=_BODY)
    async def apply_config(request: Request) -> ConfigApplied:
        """Apply the staged configuration; 409 when nothing is staged, or not what you were shown."""
        asked = await read_body(request, ApplyConfig)
        snapshot, done = await staging.apply(asked.digest)
        return ConfigApplied(
            version=snapshot.version,
            changes=done.changes,
            warnings=done.warnings,
            report=await news.report(),
        )

    return router


_BODY = {
    "requestBody": {"content": {"application/json": {"schema": ApplyConfig.model_json_schema()}}}
}


def _diff(found: Difference) -> ConfigDiff:
    return ConfigDiff(
        running_version=found.running_version,
        digest=found.staged.digest,
        staged_at=found.staged.at,
        changes=found.changes,
        repos=found.repos,
        warnings=found.warnings,
    )

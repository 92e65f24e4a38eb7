"""`/v1/status`, `/v1/dms`, `/v1/commands`, and `/v1/outbox` for the gateway."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse

from choir_common.errors import NotFound
from choir_common.wire.memory_modes import DEFAULT_MODE
from choir_common.wire.operator import (
    CommandView,
    DmView,
    Page,
    SystemStatus,
)
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_usage import WorkspaceUsageService
from choir_control.api.readiness import ReadinessChecks
from choir_control.configuration.current import ConfigService
from choir_control.configuration.parsing import DEFAULT_MODEL
from choir_control.conversations.commands.table import CHAT_COMMANDS, commands_for
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.leases.dm_memory import DmMemoryStore
from choir_control.money.costs import CostService
from choir_control.workspaces.outgoing_files import OutgoingFiles

MAX_OUTBOX_ID = 2**62


def status_routes(
    *,
    home: Path,
    version: str,
    configuration: ConfigService,
    overview: AgentOverview,
    readiness: ReadinessChecks,
    costs: CostService,
    usage: WorkspaceUsageService,
) -> APIRouter:
    """Return the router of the system's status."""
    router = APIRouter(tags=["system"])

    @router.get("/status")
    async def status() -> SystemStatus:
        """Show the status of the whole system."""
        snapshot, parts = configuration.current, await readiness.all_statuses()
        model = snapshot.config.models.get(DEFAULT_MODEL)
        # Agents are read from the database; without it the rest is still reported.
        has_database = all(part.ok for part in parts if part.name == "postgres")
        return SystemStatus(
            ready=all(part.ok for part in parts),
            version=version,
            config_version=snapshot.version,
            home=str(home),
            model=model.model if model else ", ".join(sorted(snapshot.config.models)) or "none",
            parts=tuple(parts),
            agents=tuple(await overview.all()) if has_database else (),
            spent_today=await costs.spent_today() if has_database else None,
            unpriced=costs.unpriced(),
            full_workspaces=usage.all_excesses(),
        )

    return router


def dm_routes(
    configuration: ConfigService, sessions: SessionStore, memory_settings: DmMemoryStore
) -> APIRouter:
    """Return the router of the conversations."""
    router = APIRouter(tags=["console"])

    @router.get("/dms")
    async def list_dms() -> Page[DmView]:
        """List the configured conversations and the agent that each is bound to."""
        snapshot = configuration.current
        suspended, live = await sessions.list_suspended(), await sessions.list_live()
        holders = {row.bindings.dm: row.agent_id for row in live}
        modes = {dm: it.mode for dm, it in (await memory_settings.read_all()).items()}
        modes |= {row.bindings.dm: row.memory_mode for row in (*suspended, *live)}
        return Page(
            items=[
                DmView(
                    name=name,
                    gateway=dm.gateway,
                    type=snapshot.config.gateways[dm.gateway].type,
                    admin=dm.admin,
                    agent_id=holders.get(name) or snapshot.default_agent_for(name),
                    bound=name in holders,
                    memory_mode=modes.get(name, DEFAULT_MODE),
                )
                for name, dm in sorted(snapshot.config.dms.items())
            ]
        )

    return router


def command_routes(configuration: ConfigService) -> APIRouter:
    """Return the router of the command table."""
    router = APIRouter(tags=["console"])

    @router.get("/commands")
    async def list_commands(dm: str | None = None) -> Page[CommandView]:
        """List all commands; with `dm`, those available in that conversation."""
        if dm is None:
            return Page(items=[row.view() for row in CHAT_COMMANDS])
        conversation = configuration.current.config.dms.get(dm)
        if conversation is None:
            raise NotFound(f"There is no DM {dm[:100]!r} in config.json.")
        return Page(
            items=[
                row.view(is_admin=conversation.admin) for row in commands_for(conversation.admin)
            ]
        )

    return router


def outbox_routes(outgoing: OutgoingFiles) -> APIRouter:
    """Return the router of the files of messages in delivery; the gateway uploads them."""
    router = APIRouter(tags=["console"], include_in_schema=False)

    @router.get("/outbox/{outbox_id}/files/{number}")
    async def read_file(
        outbox_id: Annotated[int, PathParameter(ge=1, le=MAX_OUTBOX_ID)],
        number: Annotated[int, PathParameter(ge=0, le=99)],
    ) -> FileResponse:
        """Return the bytes of a message's file, until the message is delivered."""
        path = await outgoing.find(outbox_id, number)
        return FileResponse(path, media_type="application/octet-stream")

    return router

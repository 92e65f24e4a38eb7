"""`/v1/status`, `/v1/dms`, `/v1/commands`, and `/v1/outbox` for the gateway."""

import asyncio
import contextlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from choir_common.errors import NotFound
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.memory_modes import DEFAULT_MODE
from choir_common.wire.operator import (
    CommandView,
    DmView,
    Page,
    SystemStatus,
)
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_usage import WorkspaceUsageService
from choir_control.api.operator.authentication import ConversationAccess
from choir_control.api.readiness import ReadinessChecks
from choir_control.configuration.current import ConfigService
from choir_control.configuration.parsing import DEFAULT_MODEL
from choir_control.conversations.commands.table import CHAT_COMMANDS, commands_for
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.leases.conversations import ConversationStore
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
    router = ServiceRouter(tags=["system"])

    @router.get("/status")
    async def status() -> SystemStatus:
        """Show the status of the whole system."""
        parts, channels = await asyncio.gather(
            readiness.all_statuses(), readiness.channel_statuses()
        )
        snapshot = configuration.current
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
            channels=tuple(it for it in channels if it.name in snapshot.config.gateways),
            agents=tuple(await overview.all()) if has_database else (),
            spent_today=await costs.spent_today() if has_database else None,
            unpriced=costs.unpriced(),
            full_workspaces=usage.all_excesses(),
        )

    return router


def dm_routes(
    *,
    configuration: ConfigService,
    sessions: SessionStore,
    conversations: ConversationStore,
    memory_settings: DmMemoryStore,
    outbox: OutboxStore,
) -> APIRouter:
    """Return the router of the conversations; a person gets the own ones."""
    router = ServiceRouter(tags=["console"])

    @router.get("/dms")
    async def list_dms(request: Request) -> Page[DmView]:
        """List the configured conversations and the agent that each is bound to."""
        snapshot = configuration.current
        access: ConversationAccess = request.state.access
        own = [name for name in sorted(snapshot.config.dms) if access.may_use(name)]
        newest = await outbox.read_newest_ids(own)
        suspended, live = await sessions.list_suspended(), await sessions.list_live()
        further = await conversations.list_served([row.session_id for row in live])
        holders = {
            dm: row.agent_id
            for row in live
            for dm in (row.bindings.dm, *further.get(row.session_id, ()))
        }
        modes = {dm: it.mode for dm, it in (await memory_settings.read_all()).items()}
        modes |= {
            dm: row.memory_mode
            for row in (*suspended, *live)
            for dm in (row.bindings.dm, *further.get(row.session_id, ()))
        }
        return Page(
            items=[
                DmView(
                    name=name,
                    gateway=dm.gateway,
                    type=snapshot.config.gateways[dm.gateway].type,
                    admin=snapshot.people.is_admin(name),
                    agent_id=holders.get(name) or snapshot.default_agent_for(name),
                    bound=name in holders,
                    memory_mode=modes.get(name, DEFAULT_MODE),
                    last_outbox_id=newest.get(name, 0),
                )
                for name in own
                for dm in (snapshot.config.dms[name],)
            ]
        )

    return router


def command_routes(configuration: ConfigService) -> APIRouter:
    """Return the router of the command table."""
    router = ServiceRouter(tags=["console"])

    @router.get("/commands")
    async def list_commands(dm: str | None = None) -> Page[CommandView]:
        """List all commands; with `dm`, those available in that conversation."""
        if dm is None:
            return Page(items=[row.view() for row in CHAT_COMMANDS])
        snapshot = configuration.current
        if dm not in snapshot.config.dms:
            raise NotFound(_("There is no DM {dm!r} in config.json.").format(dm=dm[:100]))
        rank = snapshot.people.rank_in(dm)
        return Page(items=[row.view(is_admin=rank == "admin") for row in commands_for(rank)])

    return router


class TransferredFile(FileResponse):
    """A file as a response that counts as a transfer of its browser while it is sent."""

    def __init__(self, path: Path, admission: AbstractContextManager[None]) -> None:
        super().__init__(path, media_type="application/octet-stream")
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        with self._admission:
            await super().__call__(scope, receive, send)


def outbox_routes(outgoing: OutgoingFiles) -> APIRouter:
    """Return the router of the files of messages in delivery; the gateway uploads them."""
    router = ServiceRouter(tags=["console"], include_in_schema=False)

    @router.get("/outbox/{outbox_id}/files/{number}")
    async def read_file(
        outbox_id: Annotated[int, PathParameter(ge=1, le=MAX_OUTBOX_ID)],
        number: Annotated[int, PathParameter(ge=0, le=99)],
        request: Request,
    ) -> FileResponse:
        """Return the bytes of a message's file, until the message is delivered."""
        # the gateway has none, and no limit
        access: ConversationAccess | None = getattr(request.state, "access", None)
        admission = access.admit_transfer() if access else contextlib.nullcontext()
        return TransferredFile(await outgoing.find(outbox_id, number), admission)

    return router

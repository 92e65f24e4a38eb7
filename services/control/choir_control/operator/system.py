"""`/v1/status`, `/v1/dms` and `/v1/commands`: overview of the system."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from fastapi import APIRouter

from choir_common.errors import NotFound
from choir_common.wire.operator import (
    CommandView,
    DmView,
    Page,
    PartStatus,
    SystemStatus,
)
from choir_control.commands.table import TABLE, rows_for
from choir_control.configuration.current import Configuration
from choir_control.configuration.read import DEFAULT_MODEL
from choir_control.sessions.roster import Roster
from choir_control.sessions.store import SessionStore

Check = Callable[[], Awaitable[Sequence[PartStatus]]]


def status_routes(
    home: Path, version: str, configuration: Configuration, roster: Roster, check: Check
) -> APIRouter:
    """Return the router of the system's status."""
    router = APIRouter(tags=["system"])

    @router.get("/status")
    async def status() -> SystemStatus:
        """Show the status of the whole system."""
        snapshot, parts = configuration.current, await check()
        model = snapshot.config.models.get(DEFAULT_MODEL)
        # Agents are read from the database; without it the rest is still reported.
        database_is_there = all(part.ok for part in parts if part.name == "postgres")
        return SystemStatus(
            ready=all(part.ok for part in parts),
            version=version,
            config_version=snapshot.version,
            home=str(home),
            model=model.model if model else ", ".join(sorted(snapshot.config.models)) or "none",
            parts=tuple(parts),
            agents=tuple(await roster.all()) if database_is_there else (),
        )

    return router


def dm_routes(configuration: Configuration, sessions: SessionStore) -> APIRouter:
    """Return the router of the conversations."""
    router = APIRouter(tags=["console"])

    @router.get("/dms")
    async def list_dms() -> Page[DmView]:
        """List the configured conversations and the agent that each is bound to."""
        snapshot = configuration.current
        holders = {row.bindings.dm: row.agent_id for row in await sessions.live()}
        return Page(
            items=[
                DmView(
                    name=name,
                    gateway=dm.gateway,
                    type=snapshot.config.gateways[dm.gateway].type,
                    admin=dm.admin,
                    agent_id=holders.get(name) or snapshot.default_agent_of(name),
                    bound=name in holders,
                )
                for name, dm in sorted(snapshot.config.dms.items())
            ]
        )

    return router


def command_routes(configuration: Configuration) -> APIRouter:
    """Return the router of the command table."""
    router = APIRouter(tags=["console"])

    @router.get("/commands")
    async def list_commands(dm: str | None = None) -> Page[CommandView]:
        """List all commands; with `dm`, those available in that conversation."""
        if dm is None:
            return Page(items=[row.view() for row in TABLE])
        found = configuration.current.config.dms.get(dm)
        if found is None:
            raise NotFound(f"There is no DM {dm[:100]!r} in config.json.")
        return Page(items=[row.view(is_admin=found.admin) for row in rows_for(found.admin)])

    return router

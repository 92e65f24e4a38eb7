"""Start agents, and take crashed sessions up again. Called by the operator door, `mend` and `boot`."""

from datetime import timedelta

import structlog

from choir_common.errors import ChoirError, Conflict
from choir_common.ids import new_id
from choir_common.wire.operator import StartAgent
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.current import Configuration
from choir_control.leases.guard import LeaseGuard
from choir_control.leases.token import mint
from choir_control.sessions.archive_port import Archive
from choir_control.sessions.choose import check, choose, contradictions
from choir_control.sessions.crash import Crashes
from choir_control.sessions.launch import Launcher
from choir_control.sessions.record import (
    RESUMABLE,
    Grant,
    SessionRow,
    is_rehearsal,
    resources_of,
)
from choir_control.sessions.store import SessionStore
from choir_control.sessions.turns import AgentTurns

log = structlog.get_logger("choir.sessions")

LEASE_HELD_RETRY = timedelta(seconds=5)


class Starter:
    """Begins epochs."""

    def __init__(
        self,
        store: SessionStore,
        configuration: Configuration,
        guard: LeaseGuard,
        launcher: Launcher,
        crashes: Crashes,
        turns: AgentTurns,
        archive: Archive,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._guard = guard
        self._launcher = launcher
        self._crashes = crashes
        self._turns = turns
        self._archive = archive

    async def start(self, agent_id: str, request: StartAgent) -> SessionRow:
        """Start an agent by hand: a new session, or the one it left open, with a new budget of resumes.

        Raises NotFound, BadInput for unknown names, Conflict when it runs or a resource is held.
        """
        bindings = choose(self._configuration.current, agent_id, request)
        async with self._turns.of(agent_id):
            live = await self._store.unfinished_of(agent_id)
            if live is None:
                return await self._begin(agent_id, bindings)
            if live.status not in RESUMABLE:
                raise Conflict(
                    f"{agent_id} is already {'stopping' if live.status == 'stopping' else 'running'}"
                    f" (session {live.session_id})."
                )
            _refuse_others(request, live)
            return await self._go_on(live)

    async def start_as(self, agent_id: str, bindings: ResourceBindings) -> SessionRow:
        """Start an agent with what it had before, whatever its defaults say now.

        A session that it left open goes on with its own bindings.

        Raises NotFound, BadInput for names that are gone, Conflict when it runs or a resource is held.
        """
        snapshot = self._configuration.current
        snapshot.agent(agent_id)
        check(snapshot.config, bindings)
        async with self._turns.of(agent_id):
            live = await self._store.unfinished_of(agent_id)
            if live is not None and live.status in RESUMABLE:
                return await self._go_on(live)
            return await self._begin(agent_id, bindings)

    async def resume(self, crashed: SessionRow) -> None:
        """Take a crashed session up under its next epoch; later if a resource is held meanwhile."""
        async with self._turns.of(crashed.agent_id):
            try:
                grant = await self._regrant(crashed)
            except Conflict as error:
                log.warning("resume waits", session=crashed.session_id, why=error.message)
                await self._store.postpone(crashed.session_id, LEASE_HELD_RETRY)
                return
            await self._launch(grant)

    async def _go_on(self, left_open: SessionRow) -> SessionRow:
        await self._launcher.check(left_open.agent_id)
        await self._store.forgive(left_open.session_id)
        grant = await self._regrant(left_open)
        await self._launch(grant)
        return grant.session

    async def _begin(self, agent_id: str, bindings: ResourceBindings) -> SessionRow:
        await self._launcher.check(agent_id)
        token, config = mint(), self._configuration.current.config
        row = await self._store.create(
            new_id("ses"),
            agent_id,
            bindings,
            resources_of(agent_id, bindings, config),
            config.dms[bindings.dm].gateway,
            token,
            rehearsal=is_rehearsal(config, bindings),
        )
        if not row.rehearsal:
            await self._archive.forget_rehearsals(agent_id)
        await self._launch(Grant(row, token))
        return row

    async def _regrant(self, crashed: SessionRow) -> Grant:
        token, snapshot = mint(), self._configuration.current
        gateway = snapshot.gateway_of(crashed.bindings.dm) or crashed.gateway
        resources = resources_of(crashed.agent_id, crashed.bindings, snapshot.config)
        row = await self._store.begin_epoch(crashed, resources, gateway, token)
        if row is None:
            raise Conflict(f"Session {crashed.session_id} is being taken up already.")
        self._guard.forget(row.session_id)
        return Grant(row, token)

    async def _launch(self, grant: Grant) -> None:
        try:
            await self._launcher.launch(grant)
        except ChoirError as error:
            await self._crashes.note(grant.session, f"it could not be started: {error.message}")
            raise


def _refuse_others(request: StartAgent, crashed: SessionRow) -> None:
    """Raise Conflict when a start names other resources than the crashed session it would go on with."""
    others = contradictions(request, crashed.bindings)
    if others:
        raise Conflict(
            f"{crashed.agent_id} has an unfinished session ({crashed.session_id}) that is bound to "
            f"{', '.join(others)}. Start it without other resources to go on with that, or give it up first "
            f"(`choirctl agent stop {crashed.agent_id}`)."
        )

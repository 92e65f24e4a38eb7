"""Sessions serve the conversations that config.json names: at a start, at a resume, and after a change.

What cannot be bound now is tried again by the next sweep: another agent may have the conversation, or the
session is incognito. A removed conversation leaves its session when its open messages have answers. Agents
learn of new links between people and conversations here, too.
"""

import structlog

from choir_common.errors import Conflict, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.memory_modes import INCOGNITO
from choir_control.agents.sessions.conversation_binder import ConversationBinder
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.conversations import ConversationStore

log = structlog.get_logger("choir.sessions")

INTERVAL_S = 5.0


class ConversationReconciler:
    """Service that binds sessions to their configured conversations."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        store: ConversationStore,
        binder: ConversationBinder,
        configuration: ConfigService,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._binder = binder
        self._configuration = configuration
        self._locks = KeyedLock()
        self._faults: dict[str, dict[str, str]] = {}
        """Why a configured conversation is not bound, by agent and conversation."""
        self._people: dict[str, tuple[str | None, ...]] = {}
        """The people of the conversations of each session, as its agent knows them."""

    def faults_of(self, agent_id: str) -> tuple[str, ...]:
        """Return a sentence about each conversation that an agent should serve and does not."""
        return tuple(self._faults.get(agent_id, {}).values())

    async def begin(self, session: SessionRow) -> None:
        """Bind a session before the agent of its next epoch starts. Raises Unavailable."""
        await self._binder.begin(session)
        await self._reconcile(session, is_running=False)

    async def sweep(self) -> None:
        """Bind all running sessions; what fails is tried again by the next sweep. Raises Unavailable."""
        live = {row.agent_id: row for row in await self._sessions.list_live()}
        for agent_id in self._faults.keys() - live.keys():
            del self._faults[agent_id]
        for session_id in self._people.keys() - {row.session_id for row in live.values()}:
            del self._people[session_id]
        for session in live.values():
            if session.status in ("starting", "active"):
                await self._reconcile(session, is_running=True)
        await self._store.free_ended()

    async def apply(self) -> None:
        """Bind all running sessions after a change of the configuration, as far as possible now."""
        try:
            await self.sweep()
        except Unavailable as error:
            log.warning("conversations are bound later", error=error.message)

    def _targets(self, session: SessionRow) -> dict[str, str] | None:
        """Return the configured further conversations with their gateways; None: leave them as they are."""
        config = self._configuration.current.config
        agent = config.agents.get(session.agent_id)
        if agent is None:
            return None
        names = (name for name in agent.conversations if name != session.bindings.dm)
        return {name: config.dms[name].gateway for name in names if name in config.dms}

    async def _reconcile(self, session: SessionRow, *, is_running: bool) -> None:
        async with self._locks.of(session.agent_id):
            targets = self._targets(session)
            if targets is None:
                return
            bound = await self._store.list_bound(session.session_id)
            for dm in bound.keys() - targets.keys():
                # A process that does not run yet has nothing in its queue.
                if await self._binder.unbind(session, dm, only_if_idle=is_running):
                    log.info("conversation unbound", agent=session.agent_id, dm=dm)
            faults = {}
            for dm, gateway in targets.items():
                fault = await self._bind(session, dm, gateway, bound.get(dm))
                if fault:
                    faults[dm] = fault
            self._note_faults(session.agent_id, faults)
            await self._note_people(session, tuple(targets), is_running=is_running)

    async def _bind(
        self, session: SessionRow, dm: str, gateway: str, bound_gateway: str | None
    ) -> str:
        """Bind a session to a conversation; return why that is not possible now, or an empty string."""
        if bound_gateway == gateway:
            return ""
        if bound_gateway is not None:
            await self._store.set_gateway(session.session_id, dm, gateway)
            return ""
        if session.memory_mode == INCOGNITO:
            return _(
                "{dm} is not bound, because {agent_id} is incognito and serves only its home conversation; "
                "/memory local ends that."
            ).format(dm=dm, agent_id=session.agent_id)
        try:
            await self._binder.bind(session, dm, gateway)
        except Conflict as error:
            return _("{dm} is not bound: {message}").format(dm=dm, message=error.message)
        log.info("conversation bound", agent=session.agent_id, dm=dm)
        return ""

    async def _note_people(
        self, session: SessionRow, dms: tuple[str, ...], *, is_running: bool
    ) -> None:
        registry = self._configuration.current.people
        people = tuple(registry.person_in(dm) for dm in (session.bindings.dm, *dms))
        # A process that does not run yet gets them at its start.
        if dms and is_running and self._people.get(session.session_id) != people:
            await self._binder.refresh_settings(session)
        self._people[session.session_id] = people

    def _note_faults(self, agent_id: str, faults: dict[str, str]) -> None:
        before = self._faults.pop(agent_id, {})
        if faults:
            self._faults[agent_id] = faults
        if faults and faults != before:
            log.warning("conversations not bound", agent=agent_id, faults=list(faults.values()))

"""Start of agents and resume of crashed or suspended sessions.

Used by operators, by crash recovery and at the startup of control.
"""

from datetime import timedelta

import structlog

from choir_common.errors import ChoirError, Conflict
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.operator import StartAgent
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.sessions.bindings import (
    OVERRIDABLE_FIELDS,
    check_bindings,
    choose_bindings,
    find_contradictions,
    is_resumable,
)
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.launch import AgentLauncher
from choir_control.agents.sessions.record import (
    RESUMABLE_STATUSES,
    EpochGrant,
    SessionRow,
    exclusive_resources,
    is_rehearsal,
)
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.images.builder import SessionImage
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.leases.authentication import LeaseAuthenticator, create_lease_token
from choir_control.log.leases.dm_memory import DmMemoryStore

log = structlog.get_logger("choir.sessions")

# A conflict over a lease usually ends within seconds, when the other agent has stopped.
LEASE_CONFLICT_RETRY = timedelta(seconds=5)


class SessionStarter:
    """Service that starts agents and resumes sessions, one start per agent at a time."""

    def __init__(
        self,
        *,
        store: SessionStore,
        configuration: ConfigService,
        authenticator: LeaseAuthenticator,
        launcher: AgentLauncher,
        crash_handler: CrashHandler,
        agent_locks: KeyedLock,
        archiver: SessionArchiver,
        memory_settings: DmMemoryStore,
        conversations: ConversationReconciler,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._authenticator = authenticator
        self._launcher = launcher
        self._crash_handler = crash_handler
        self._agent_locks = agent_locks
        self._archiver = archiver
        self._memory_settings = memory_settings
        self._conversations = conversations

    async def start(
        self, agent_id: str, request: StartAgent, image: SessionImage | None = None
    ) -> SessionRow:
        """Start an agent: create a session, or resume its unfinished one with its crash counters reset.

        An unfinished session keeps its image. A new session uses `image`, or the newest image if it
        is None.

        Raises NotFound for an unknown agent, InvalidRequest for unknown resource names, and Conflict when
        the agent is running, a resource is leased, or the request names other resources than the
        unfinished session has.
        """
        bindings = choose_bindings(self._configuration.current, agent_id, request)
        async with self._agent_locks.of(agent_id):
            live = await self._find_resumable(agent_id)
            if live is None:
                return await self._begin(agent_id, bindings, image)
            if live.status not in RESUMABLE_STATUSES:
                raise Conflict(
                    (
                        _("{agent} is already stopping (session {session_id}).")
                        if live.status == "stopping"
                        else _("{agent} is already running (session {session_id}).")
                    ).format(agent=agent_id, session_id=live.session_id)
                )
            _reject_contradictions(request, live)
            live = await self._apply_overrides(live, request)
            return await self._resume_session(live, live.image)

    async def restart(
        self, agent_id: str, bindings: ResourceBindings, image: SessionImage | None = None
    ) -> SessionRow:
        """Start an agent with the bindings it had before, regardless of its current defaults.

        An unfinished session is resumed with its own bindings, and with `image` or its own image.

        Raises NotFound, InvalidRequest for names that are no longer configured, and Conflict when the
        agent is running or a resource is leased.
        """
        snapshot = self._configuration.current
        snapshot.agent(agent_id)
        check_bindings(snapshot.config, bindings)
        async with self._agent_locks.of(agent_id):
            live = await self._find_resumable(agent_id)
            if live is not None and live.status in RESUMABLE_STATUSES:
                return await self._resume_session(live, image or live.image)
            return await self._begin(agent_id, bindings, image)

    async def check(
        self, agent_id: str, bindings: ResourceBindings, image: SessionImage | None
    ) -> None:
        """Check that an agent could be started again, before a restart stops it.

        Raises NotFound, InvalidRequest, Conflict or Unavailable.
        """
        snapshot = self._configuration.current
        snapshot.agent(agent_id)
        check_bindings(snapshot.config, bindings)
        image = image or await self._launcher.newest(agent_id)
        await self._launcher.check(agent_id, bindings, image)

    async def check_restart(self, agent_id: str) -> None:
        """Run `check` for a restart of the agent's current session; do nothing if it is not
        running."""
        live = await self._store.find_live(agent_id)
        if live is not None:
            await self.check(agent_id, live.initial_bindings, live.image)

    async def resume(self, session: SessionRow) -> None:
        """Resume a crashed session under its next epoch, or postpone it if it cannot be started now.

        Does nothing if the session was stopped or started while this waited for the agent's lock.
        """
        async with self._agent_locks.of(session.agent_id):
            now = await self._store.get(session.session_id)
            if now is None or (now.status, now.epoch) != ("crashed", session.epoch):
                return
            if self._must_end_rehearsal(session):
                await self._crash_handler.end_rehearsal(session)
                await self._begin(session.agent_id, session.initial_bindings, None)
                return
            try:
                image = session.image or await self._launcher.newest(session.agent_id)
                await self._launcher.check(session.agent_id, session.bindings, image)
            except ChoirError as error:
                await self._crash_handler.handle_failed_start(session, error.message)
                return
            try:
                grant = await self._begin_epoch(session, image)
            # a crash freed the leases, and another agent may have taken one meanwhile
            except Conflict as error:
                log.warning("resume postponed", session=session.session_id, error=error.message)
                await self._store.delay_resume(session.session_id, LEASE_CONFLICT_RETRY)
                return
            await self._launch(grant)

    async def _find_resumable(self, agent_id: str) -> SessionRow | None:
        """Return the agent's unfinished session; one that can no longer be resumed is ended first."""
        live = await self._store.find_unfinished(agent_id)
        if live is None or live.status not in RESUMABLE_STATUSES:
            return live
        if self._must_end_rehearsal(live):
            await self._crash_handler.end_rehearsal(live)
        elif not is_resumable(self._configuration.current.config, live.bindings):
            await self._crash_handler.end_without_resources(live)
        else:
            return live
        return None

    def _must_end_rehearsal(self, session: SessionRow) -> bool:
        """Return whether a rehearsal session would resume with a real model.

        A change of the model during the session does not count: the user chose it.
        """
        config = self._configuration.current.config
        is_configured = session.initial_bindings.llm in config.models
        return (
            session.rehearsal
            and is_configured
            and not is_rehearsal(config, session.initial_bindings)
        )

    async def _apply_overrides(self, left_open: SessionRow, request: StartAgent) -> SessionRow:
        """Change an unfinished session to the model and voice that the start request names."""
        for field in OVERRIDABLE_FIELDS:
            name = getattr(request, field)
            if name and name != getattr(left_open.bindings, field):
                changed = await self._store.set_override(left_open.session_id, field, name)
                left_open = changed or left_open
        return left_open

    async def _resume_session(
        self, left_open: SessionRow, image: SessionImage | None
    ) -> SessionRow:
        image = image or await self._launcher.newest(left_open.agent_id)
        await self._launcher.check(left_open.agent_id, left_open.bindings, image)
        await self._store.reset_crash_counters(left_open.session_id)
        grant = await self._begin_epoch(left_open, image)
        await self._launch(grant)
        return grant.session

    async def _begin(
        self, agent_id: str, bindings: ResourceBindings, image: SessionImage | None
    ) -> SessionRow:
        image = image or await self._launcher.newest(agent_id)
        await self._launcher.check(agent_id, bindings, image)
        token, config = create_lease_token(), self._configuration.current.config
        row = await self._store.create(
            new_id("ses"),
            agent_id,
            bindings,
            exclusive_resources(agent_id, bindings, config),
            config.dms[bindings.dm].gateway,
            token,
            image,
            rehearsal=is_rehearsal(config, bindings),
            memory_mode=(await self._memory_settings.read(bindings.dm)).mode,
        )
        if not row.rehearsal:
            # A real session must not recall rehearsals.
            await self._archiver.forget_rehearsals(agent_id)
        await self._launch(EpochGrant(row, token))
        return row

    async def _begin_epoch(self, session: SessionRow, image: SessionImage) -> EpochGrant:
        token, snapshot = create_lease_token(), self._configuration.current
        # the configuration may have moved the DM to another gateway since the last epoch
        gateway = snapshot.gateway_of(session.bindings.dm) or session.gateway
        resources = exclusive_resources(session.agent_id, session.bindings, snapshot.config)
        row = await self._store.begin_epoch(session, resources, gateway, token, image)
        if row is None:
            raise Conflict(
                _("Session {session_id} is already being resumed.").format(
                    session_id=session.session_id
                )
            )
        # the cached lease has the token of the previous epoch
        self._authenticator.forget(row.session_id)
        return EpochGrant(row, token)

    async def _launch(self, grant: EpochGrant) -> None:
        await self._conversations.begin(grant.session)
        try:
            await self._launcher.launch(grant)
        except ChoirError as error:
            await self._crash_handler.handle_failed_start(grant.session, error.message)
            raise


def _reject_contradictions(request: StartAgent, session: SessionRow) -> None:
    """Raise Conflict if the request names other resources than the unfinished session is bound to."""
    others = find_contradictions(request, session.bindings)
    if others:
        raise Conflict(
            _(
                "{agent} has an unfinished session ({session_id}) that is bound to {others}. Start it "
                "without naming resources to resume that session, or end it first (`choirctl agent "
                "stop {agent}`)."
            ).format(
                agent=session.agent_id, session_id=session.session_id, others=", ".join(others)
            )
        )

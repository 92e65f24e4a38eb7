"""Startup of control: end stale epochs, then start the agents that should run.

It runs before the endpoints open. Crashed sessions are resumed later by `CrashRecovery`.
"""

import structlog

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.operator import StartAgent
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.bindings import is_claimed_by_other_agent
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.crash_handling import REASON_UNCONFIGURED, CrashHandler
from choir_control.agents.sessions.launch import LaunchImageResolver
from choir_control.agents.sessions.record import KEEP_IMAGE_REASONS, START_AGAIN_REASONS, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import LeaseStore

log = structlog.get_logger("choir.sessions")


class StartupRecovery:
    """Session recovery at the startup of control."""

    def __init__(
        self,
        *,
        store: SessionStore,
        configuration: ConfigService,
        closer: SessionCloser,
        crash_handler: CrashHandler,
        starter: SessionStarter,
        runtime: AgentRuntime,
        leases: LeaseStore,
        image_resolver: LaunchImageResolver,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._closer = closer
        self._crash_handler = crash_handler
        self._starter = starter
        self._runtime = runtime
        self._leases = leases
        self._image_resolver = image_resolver

    async def put_in_order(self) -> tuple[int, int]:
        """Remove orphan processes and end stale epochs; return how many of each."""
        # before any lease is freed: an orphan may still write to its workspace
        orphans = await self._runtime.remove_orphans()
        live = await self._store.list_live()
        for session in (*live, *await self._store.list_suspended()):
            self._image_resolver.remember(session.agent_id, session.image)
        agents = self._configuration.current.config.agents
        stale = [row for row in live if row.status != "crashed" or row.agent_id not in agents]
        for session in stale:
            await self._end_stale_epoch(session)
        for session in await self._store.list_suspended():
            await self._crash_handler.end_unconfigured(session)
        lease_count = await self._leases.delete_stale()
        if lease_count:
            log.warning("stale leases freed", count=lease_count)
        return orphans, len(stale)

    async def start_agents(self) -> None:
        """Start the agents with autostart, and those that ran until choird ended."""
        for agent_id, agent in self._configuration.current.config.agents.items():
            if await self._store.find_live(agent_id):
                continue
            try:
                await self._start(agent_id, autostart=agent.autostart)
            except ChoirError as error:
                log.error("autostart failed", agent=agent_id, error=error.message)

    async def _start(self, agent_id: str, *, autostart: bool) -> None:
        newest = await self._store.find_unfinished(agent_id) or next(
            iter(await self._store.list_page(agent_id, None, 1)), None
        )
        before = None if newest is None or newest.end_reason not in START_AGAIN_REASONS else newest
        # an update that the shutdown interrupted is completed: the agent starts with the newest image
        image = before.image if before and before.end_reason in KEEP_IMAGE_REASONS else None
        if before and before.end_reason not in KEEP_IMAGE_REASONS and before.status == "suspended":
            image = await self._image_resolver.newest(agent_id)
        if before and (before.status == "suspended" or not autostart):
            if autostart and await self._end_if_claimed(before):
                await self._starter.start(agent_id, StartAgent(), image)
                return
            # the defaults may have changed meanwhile: the agent keeps the bindings it was started with
            try:
                await self._starter.restart(agent_id, before.initial_bindings, image)
                return
            except InvalidRequest as error:
                if not autostart:
                    raise
                log.warning(
                    "bindings no longer in the configuration", agent=agent_id, error=error.message
                )
        if autostart:
            await self._starter.start(agent_id, StartAgent(), image)

    async def _end_if_claimed(self, session: SessionRow) -> bool:
        """End a suspended session whose workspace or DM now belongs to another agent; True if ended."""
        config = self._configuration.current.config
        if not is_claimed_by_other_agent(config, session.agent_id, session.bindings):
            return False
        await self._crash_handler.end_without_resources(session)
        return True

    async def _end_stale_epoch(self, session: SessionRow) -> None:
        if session.agent_id not in self._configuration.current.config.agents:
            await self._closer.close(session.session_id, "stopped", REASON_UNCONFIGURED)
            return
        if session.status == "stopping":
            why = session.end_reason or _("control restarted during the stop")
            await self._closer.stop(session.session_id, why)
            return
        # control's own restart must not count as a crash of the agent
        await self._crash_handler.note(session, _("control restarted"), counts=False)

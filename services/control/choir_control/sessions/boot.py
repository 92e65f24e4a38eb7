"""Startup of control: end stale epochs, then start the agents that should run.

Called once by `app`, before the endpoints open. Crashed sessions are resumed later by `Mender`.
"""

import structlog

from choir_common.errors import BadInput, ChoirError
from choir_common.wire.operator import StartAgent
from choir_control.configuration.current import Configuration
from choir_control.leases.store import LeaseStore
from choir_control.runtimes.port import AgentRuntime
from choir_control.sessions.choose import is_taken_over
from choir_control.sessions.closing import Closing
from choir_control.sessions.crash import LEFT, Crashes
from choir_control.sessions.outfit import Outfitter
from choir_control.sessions.record import SAME_IMAGE, STARTED_AGAIN, SessionRow
from choir_control.sessions.start import Starter
from choir_control.sessions.store import SessionStore

log = structlog.get_logger("choir.sessions")


class Boot:
    """Session recovery at the startup of control."""

    def __init__(
        self,
        store: SessionStore,
        configuration: Configuration,
        closing: Closing,
        crashes: Crashes,
        starter: Starter,
        runtime: AgentRuntime,
        leases: LeaseStore,
        outfitter: Outfitter,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._closing = closing
        self._crashes = crashes
        self._starter = starter
        self._runtime = runtime
        self._leases = leases
        self._outfitter = outfitter

    async def put_in_order(self) -> tuple[int, int]:
        """Remove orphan processes and end stale epochs; return how many of each."""
        # before any lease is freed: an orphan may still write to its workspace
        orphans = await self._runtime.remove_orphans()
        live = await self._store.live()
        for session in (*live, *await self._store.suspended()):
            self._outfitter.remember(session.agent_id, session.image)
        known = self._configuration.current.config.agents
        stale = [row for row in live if row.status != "crashed" or row.agent_id not in known]
        for session in stale:
            await self._settle(session)
        for session in await self._store.suspended():
            await self._crashes.end_departed(session)
        freed = await self._leases.drop_stale()
        if freed:
            log.warning("stale leases freed", count=freed)
        return orphans, len(stale)

    async def start_agents(self) -> None:
        """Start the agents with autostart, and those that ran until choird ended."""
        for agent_id, agent in self._configuration.current.config.agents.items():
            if await self._store.live_of(agent_id):
                continue
            try:
                await self._start(agent_id, autostart=agent.autostart)
            except ChoirError as error:
                log.error("autostart failed", agent=agent_id, error=error.message)

    async def _start(self, agent_id: str, *, autostart: bool) -> None:
        newest = await self._store.unfinished_of(agent_id) or next(
            iter(await self._store.page(agent_id, None, 1)), None
        )
        before = None if newest is None or newest.end_reason not in STARTED_AGAIN else newest
        # an update that the shutdown interrupted is completed: the agent starts with the newest image
        image = before.image if before and before.end_reason in SAME_IMAGE else None
        if before and before.end_reason not in SAME_IMAGE and before.status == "suspended":
            image = await self._outfitter.newest(agent_id)
        if before and (before.status == "suspended" or not autostart):
            if autostart and await self._gave_way(before):
                await self._starter.start(agent_id, StartAgent(), image)
                return
            # the defaults may have changed meanwhile: the agent keeps the bindings it was started with
            try:
                await self._starter.start_as(agent_id, before.started_with, image)
                return
            except BadInput as error:
                if not autostart:
                    raise
                log.warning("its bindings have changed", agent=agent_id, why=error.message)
        if autostart:
            await self._starter.start(agent_id, StartAgent(), image)

    async def _gave_way(self, session: SessionRow) -> bool:
        """End a suspended session whose workspace or DM now belongs to another agent; True if ended."""
        config = self._configuration.current.config
        if not is_taken_over(config, session.agent_id, session.bindings):
            return False
        await self._crashes.end_unbound(session)
        return True

    async def _settle(self, session: SessionRow) -> None:
        if session.agent_id not in self._configuration.current.config.agents:
            await self._closing.close(session.session_id, "stopped", LEFT)
            return
        if session.status == "stopping":
            why = session.end_reason or "control restarted while it stopped"
            await self._closing.stop(session.session_id, why)
            return
        # control's own restart must not count as a crash of the agent
        await self._crashes.note(session, "control restarted", counts=False)

"""Put sessions in order when control starts (spec 6.2, steps 6 and 7), then start what should run.

Called once by `app`, before the doors open; `mend` resumes what is marked here.
"""

import structlog

from choir_common.errors import ChoirError
from choir_common.wire.operator import StartAgent
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.current import Configuration
from choir_control.leases.store import LeaseStore
from choir_control.runtimes.port import AgentRuntime
from choir_control.sessions.closing import Closing
from choir_control.sessions.crash import Crashes
from choir_control.sessions.record import STARTED_AGAIN, SessionRow
from choir_control.sessions.start import Starter
from choir_control.sessions.store import SessionStore

log = structlog.get_logger("choir.sessions")

LEFT = "it left the configuration"


class Boot:
    """The first minutes after a restart."""

    def __init__(
        self,
        store: SessionStore,
        configuration: Configuration,
        closing: Closing,
        crashes: Crashes,
        starter: Starter,
        runtime: AgentRuntime,
        leases: LeaseStore,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._closing = closing
        self._crashes = crashes
        self._starter = starter
        self._runtime = runtime
        self._leases = leases

    async def put_in_order(self) -> tuple[int, int]:
        """Remove orphans and end stale epochs; return how many of each."""
        orphans = await self._runtime.remove_orphans()
        stale = [row for row in await self._store.live() if row.status != "crashed"]
        for session in stale:
            await self._settle(session)
        for session in await self._store.suspended():
            if session.agent_id not in self._configuration.current.config.agents:
                await self._closing.close(session.session_id, "stopped", LEFT)
        freed = await self._leases.drop_stale()
        if freed:
            log.warning("stale leases freed", count=freed)
        return orphans, len(stale)

    async def start_agents(self) -> None:
        """Start the agents that are to run from the start, or ran until choird ended."""
        for agent_id, agent in self._configuration.current.config.agents.items():
            newest = await self._store.unfinished_of(agent_id) or next(
                iter(await self._store.page(agent_id, None, 1)), None
            )
            # defaults may have been edited meanwhile; what was started by hand is started as it was
            before = None if agent.autostart else _as_before(newest)
            if not (agent.autostart or before) or await self._store.live_of(agent_id):
                continue
            try:
                if newest is not None and newest.status == "suspended":
                    await self._starter.start_as(agent_id, newest.started_with)
                elif before:
                    await self._starter.start_as(agent_id, before)
                else:
                    await self._starter.start(agent_id, StartAgent())
            except ChoirError as error:
                log.error("autostart failed", agent=agent_id, error=error.message)

    async def _settle(self, session: SessionRow) -> None:
        if session.agent_id not in self._configuration.current.config.agents:
            await self._closing.close(session.session_id, "stopped", LEFT)
            return
        if session.status == "stopping":
            why = session.end_reason or "control restarted while it stopped"
            await self._closing.stop(session.session_id, why)
            return
        counts = await self._store.has_open_messages(session)
        await self._crashes.note(session, "control restarted", counts=counts)


def _as_before(newest: SessionRow | None) -> ResourceBindings | None:
    """Return what an agent was started with that ran until choird was shut down, or died in an update."""
    if newest is None or newest.end_reason not in STARTED_AGAIN:
        return None
    return newest.started_with

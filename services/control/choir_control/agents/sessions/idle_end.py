"""End of sessions by inactivity (`agents.NAME.idle_end`): the agent continues in a new session.

An ended session is summarized by its agent and archived, like after a stop. The next message is
answered in the new session, which continues it.
"""

from collections.abc import Mapping
from datetime import timedelta

import structlog

from choir_common.errors import ChoirError
from choir_control.agents.sessions.closing_store import ClosingStore
from choir_control.agents.sessions.record import REASON_IDLE
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService

log = structlog.get_logger("choir.sessions")

INTERVAL_S = 10.0


class IdleSessionEnder:
    """Service that ends idle sessions and starts their agents again."""

    def __init__(
        self,
        *,
        closing_store: ClosingStore,
        sessions: SessionStore,
        configuration: ConfigService,
        starter: SessionStarter,
        stopper: SessionStopper,
    ) -> None:
        self._closing_store = closing_store
        self._sessions = sessions
        self._configuration = configuration
        self._starter = starter
        self._stopper = stopper

    async def sweep(self) -> None:
        """End every idle session, one after the other; what fails is tried again by the next sweep."""
        for agent_id, idle_time in self._idle_times().items():
            try:
                await self._end_if_idle(agent_id, idle_time)
                await self._start_again(agent_id)
            except ChoirError as error:
                log.warning("idle session not ended", agent=agent_id, error=error.message)

    def _idle_times(self) -> Mapping[str, timedelta]:
        return {
            agent_id: timedelta(milliseconds=agent.idle_end.after_ms)
            for agent_id, agent in self._configuration.current.config.agents.items()
            if agent.idle_end is not None
        }

    async def _end_if_idle(self, agent_id: str, idle_time: timedelta) -> None:
        idle = await self._closing_store.find_idle(agent_id, idle_time)
        if idle is None:
            return
        await self._starter.check_restart(agent_id)  # before the stop: it may be refused
        if await self._stopper.stop(agent_id, REASON_IDLE, idle.session_id):
            log.info("idle session ended", agent=agent_id, session=idle.session_id)

    async def _start_again(self, agent_id: str) -> None:
        """Start the agent if its newest session ended by inactivity and nothing runs since."""
        newest = next(iter(await self._sessions.list_page(agent_id, None, 1)), None)
        if newest is None or newest.end_reason != REASON_IDLE:
            return
        if newest.status in ("stopped", "suspended"):
            await self._starter.restart(agent_id, newest.initial_bindings, newest.image)

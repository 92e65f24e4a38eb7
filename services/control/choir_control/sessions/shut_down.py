"""Orderly stop of every agent within the shutdown deadline, before choird itself stops.

Called by `app` while the endpoints are still open: the agents write their summaries and send their last
events through them. `Boot` starts the same agents again.
"""

import asyncio

import structlog

from choir_common.errors import ChoirError, Unavailable
from choir_control.sessions.record import SHUT_DOWN, SessionRow
from choir_control.sessions.stop import Stopper
from choir_control.sessions.store import SessionStore

log = structlog.get_logger("choir.sessions")


class ShutDown:
    """Shutdown of all agents when choird stops."""

    def __init__(self, store: SessionStore, stopper: Stopper) -> None:
        self._store = store
        self._stopper = stopper

    async def run(self, most_s: float, hurry: asyncio.Event) -> None:
        """Stop all agents concurrently; return when done, after `most_s` seconds, or when `hurry` is set.

        Agents that have not stopped by then are killed with choird; their pending replies follow at the next
        start.
        """
        running = await self._running() if most_s > 0 and not hurry.is_set() else []
        if not running:
            return
        names = sorted(session.agent_id for session in running)
        log.info("agents are asked to stop", agents=names, within_s=most_s)
        stopping = asyncio.gather(*(self._stop(session) for session in running))
        hurried = asyncio.ensure_future(hurry.wait())
        try:
            await asyncio.wait(
                (stopping, hurried), timeout=most_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            # read before the cancellation, which also completes it
            done = stopping.done()
            for each in (stopping, hurried):
                each.cancel()
            await asyncio.gather(stopping, hurried, return_exceptions=True)
        log.info("agents have stopped" if done else "agents are left", agents=names)

    async def _running(self) -> list[SessionRow]:
        try:
            live = await self._store.live()
        except Unavailable as error:
            log.warning("agents cannot be stopped in good order", error=error.message)
            return []
        return [session for session in live if session.status in ("starting", "active")]

    async def _stop(self, session: SessionRow) -> None:
        try:
            await self._stopper.stop(session.agent_id, SHUT_DOWN)
        except ChoirError as error:
            log.warning("agent not stopped", agent=session.agent_id, error=error.message)

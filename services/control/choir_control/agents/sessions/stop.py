"""Orderly stop of one agent, and of all agents before choird itself stops.

The endpoints are still open then: the agents write their summaries and send their last events
through them. `StartupRecovery` starts the same agents again.
"""

import asyncio
import contextlib

import structlog

from choir_common.errors import ChoirError, Fenced, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.signals import ShutdownSignal
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.record import REASON_SHUTDOWN, RUNNING_STATUSES, SessionRow
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease
from choir_control.log.signals.notifier import Notifier

log = structlog.get_logger("choir.sessions")

# The agent allows its turn the same time to reach a safe point; its summary and last events come on top.
TURN_S = 15.0
SLACK_S = 10.0
KILL_GRACE_S = 3.0
LOOK_S = 0.5


class SessionStopper:
    """Service that stops agents and ends or suspends their sessions."""

    def __init__(
        self,
        *,
        store: SessionStore,
        signal_sender: SignalSender,
        notifier: Notifier,
        closer: SessionCloser,
        crash_handler: CrashHandler,
        runtime: AgentRuntime,
        agent_locks: KeyedLock,
        configuration: ConfigService,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._signal_sender = signal_sender
        self._notifier = notifier
        self._closer = closer
        self._crash_handler = crash_handler
        self._runtime = runtime
        self._agent_locks = agent_locks

    @property
    def patience_s(self) -> float:
        """Return how many seconds a stop may take: the turn, the summary and the last events."""
        summary_s = self._configuration.current.config.summary_timeout_ms / 1000
        return TURN_S + summary_s + SLACK_S

    async def stop(
        self, agent_id: str, reason: str, session_id: str | None = None
    ) -> SessionRow | None:
        """Stop an agent; return its session, ended or suspended, or None if it did not run.

        With `session_id` nothing is stopped if the agent runs another session by now. The current turn has
        `TURN_S` seconds to complete. Work that is still open is resumed by the next start.
        """
        async with self._agent_locks.of(agent_id):
            session = await self._store.find_live(agent_id)
            if session is None or session_id not in (None, session.session_id):
                return None
            # a crashed session has no process to ask
            if session.status != "crashed":
                await self._request_shutdown(session, reason)
            # kills a process that has not exited by itself within the deadline
            await self._runtime.stop(agent_id, KILL_GRACE_S)
            await self._closer.stop(session.session_id, reason)
            return await self._store.get(session.session_id)

    async def give_up(self, agent_id: str, reason: str) -> SessionRow | None:
        """End the suspended session of a stopped agent, and notify users who wait; None if it has none."""
        async with self._agent_locks.of(agent_id):
            session = await self._store.find_unfinished(agent_id)
            if session is None or session.status != "suspended":
                return None
            await self._closer.close(session.session_id, "stopped", reason)
            return await self._store.get(session.session_id)

    async def terminate(self, lease: Lease, reason: str) -> None:
        """End the session of an agent that terminates itself; without a stop request this is a crash.

        Raises Fenced when the epoch is over.
        """
        session = await self._store.get(lease.session_id)
        if session is None or session.epoch != lease.epoch:
            raise Fenced()
        if session.status == "stopping":
            why = session.end_reason or reason
            await self._closer.stop(session.session_id, why, said_goodbye=True)
        else:
            await self._crash_handler.note(
                session, _("the agent ended itself: {reason}").format(reason=reason[:200])
            )

    async def _request_shutdown(self, session: SessionRow, reason: str) -> None:
        await self._store.mark_stopping(session.session_id, reason)
        await self._signal_sender.send(session, ShutdownSignal(reason=reason))
        with self._notifier.listen(session.session_id) as wakeup, contextlib.suppress(TimeoutError):
            self._notifier.notify(session.session_id)
            async with asyncio.timeout(self.patience_s):
                while await self._is_still_running(session):
                    wakeup.clear()
                    # not `wait_for`: before Python 3.12 it may lose a cancellation that coincides with the
                    # event
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await wakeup.wait()

    async def _is_still_running(self, session: SessionRow) -> bool:
        try:
            now = await self._store.get(session.session_id)
        except Unavailable:
            return True
        if now is None or now.status not in RUNNING_STATUSES:
            return False
        running = await self._runtime.list_running()
        return any(agent.session_id == session.session_id for agent in running)


class AgentShutdown:
    """Shutdown of all agents when choird stops."""

    def __init__(self, store: SessionStore, stopper: SessionStopper) -> None:
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
        log.info("stopping agents", agents=names, within_s=most_s)
        stops = asyncio.gather(*(self._stop(session) for session in running))
        hurry_task = asyncio.ensure_future(hurry.wait())
        try:
            await asyncio.wait(
                (stops, hurry_task), timeout=most_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            # read before the cancellation, which also completes it
            done = stops.done()
            for task in (stops, hurry_task):
                task.cancel()
            await asyncio.gather(stops, hurry_task, return_exceptions=True)
        log.info("agents have stopped" if done else "agents still running", agents=names)

    async def _running(self) -> list[SessionRow]:
        try:
            live = await self._store.list_live()
        except Unavailable as error:
            log.warning("cannot stop agents before shutdown", error=error.message)
            return []
        return [session for session in live if session.status in ("starting", "active")]

    async def _stop(self, session: SessionRow) -> None:
        try:
            await self._stopper.stop(session.agent_id, REASON_SHUTDOWN)
        except ChoirError as error:
            log.warning("agent not stopped", agent=session.agent_id, error=error.message)

"""Orderly stop of agents. Called by the operator API and, for TERMINATE_SELF, by the RPC endpoint."""

import asyncio
import contextlib

import structlog

from choir_common.errors import Fenced, Unavailable
from choir_common.wire.signals import ShutdownSignal
from choir_control.configuration.current import Configuration
from choir_control.leases.store import Lease
from choir_control.runtimes.port import AgentRuntime
from choir_control.sessions.closing import Closing
from choir_control.sessions.crash import Crashes
from choir_control.sessions.record import RUNNING, SessionRow
from choir_control.sessions.store import SessionStore
from choir_control.sessions.tell import Messenger
from choir_control.sessions.turns import AgentTurns
from choir_control.signals.bell import Bell

log = structlog.get_logger("choir.sessions")

# The agent allows its turn the same time to reach a safe point; its summary and last events come on top.
TURN_S = 15.0
SLACK_S = 10.0
KILL_GRACE_S = 3.0
LOOK_S = 0.5


class Stopper:
    """Service that stops agents and ends or suspends their sessions."""

    def __init__(
        self,
        store: SessionStore,
        messenger: Messenger,
        bell: Bell,
        closing: Closing,
        crashes: Crashes,
        runtime: AgentRuntime,
        turns: AgentTurns,
        configuration: Configuration,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._messenger = messenger
        self._bell = bell
        self._closing = closing
        self._crashes = crashes
        self._runtime = runtime
        self._turns = turns

    @property
    def patience_s(self) -> float:
        """Return how many seconds a stop may take: the turn, the summary and the last events."""
        summary_s = self._configuration.current.config.summary_timeout_ms / 1000
        return TURN_S + summary_s + SLACK_S

    async def stop(self, agent_id: str, reason: str) -> SessionRow | None:
        """Stop an agent; return its session, ended or suspended, or None if it did not run.

        The current turn has `TURN_S` seconds to complete. Work that is still open is resumed by the next
        start.
        """
        async with self._turns.of(agent_id):
            session = await self._store.live_of(agent_id)
            if session is None:
                return None
            # a crashed session has no process to ask
            if session.status != "crashed":
                await self._ask(session, reason)
            # kills a process that has not exited by itself within the deadline
            await self._runtime.stop(agent_id, KILL_GRACE_S)
            await self._closing.stop(session.session_id, reason)
            return await self._store.get(session.session_id)

    async def give_up(self, agent_id: str, reason: str) -> SessionRow | None:
        """End the suspended session of a stopped agent, and notify users who wait; None if it has none."""
        async with self._turns.of(agent_id):
            session = await self._store.unfinished_of(agent_id)
            if session is None or session.status != "suspended":
                return None
            await self._closing.close(session.session_id, "stopped", reason)
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
            await self._closing.stop(session.session_id, why, said_goodbye=True)
        else:
            await self._crashes.note(session, f"the agent ended itself: {reason[:200]}")

    async def _ask(self, session: SessionRow, reason: str) -> None:
        await self._store.mark_stopping(session.session_id, reason)
        await self._messenger.tell(session, ShutdownSignal(reason=reason))
        with self._bell.listen(session.session_id) as rung, contextlib.suppress(TimeoutError):
            self._bell.ring(session.session_id)
            async with asyncio.timeout(self.patience_s):
                while await self._still_there(session):
                    rung.clear()
                    # not `wait_for`: before Python 3.12 it may lose a cancellation that coincides with the
                    # event
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await rung.wait()

    async def _still_there(self, session: SessionRow) -> bool:
        try:
            now = await self._store.get(session.session_id)
        except Unavailable:
            return True
        if now is None or now.status not in RUNNING:
            return False
        running = await self._runtime.running()
        return any(agent.session_id == session.session_id for agent in running)

"""Stop agents in good order (spec 17.2). Called by the operator door and, for TERMINATE_SELF, by rpc."""

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

# an agent gives its turn as long to reach a safe point; its summary and its last events come on top
TURN_S = 15.0
SLACK_S = 10.0
KILL_GRACE_S = 3.0
LOOK_S = 0.5


class Stopper:
    """Ends sessions on request."""

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
        """Return how long an agent may take to end: its turn, its summary, its last events."""
        summary_s = self._configuration.current.config.summary_timeout_ms / 1000
        return TURN_S + summary_s + SLACK_S

    async def stop(self, agent_id: str, reason: str) -> SessionRow | None:
        """Stop an agent; return its session, which has ended or is suspended, none if it did not run.

        A turn may take `TURN_S` to end. What is open then stays open for the next start.
        """
        async with self._turns.of(agent_id):
            session = await self._store.live_of(agent_id)
            if session is None:
                return None
            if session.status != "crashed":
                await self._ask(session, reason)
            await self._runtime.stop(agent_id, KILL_GRACE_S)
            await self._closing.stop(session.session_id, reason)
            return await self._store.get(session.session_id)

    async def give_up(self, agent_id: str, reason: str) -> SessionRow | None:
        """End the suspended session of a stopped agent; none if it has none. Users who wait are told."""
        async with self._turns.of(agent_id):
            session = await self._store.unfinished_of(agent_id)
            if session is None or session.status != "suspended":
                return None
            await self._closing.close(session.session_id, "stopped", reason)
            return await self._store.get(session.session_id)

    async def terminate(self, lease: Lease, reason: str) -> None:
        """Close a session whose agent says that it ends; unasked, that is a crash to mend.

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
                    # not `wait_for`, which until Python 3.12 forgets to be cancelled when the bell rings too
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

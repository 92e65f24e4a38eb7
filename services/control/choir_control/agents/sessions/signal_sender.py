"""Signals to running sessions: injections, cancellations, compactions and shutdowns.

`SignalStreams` delivers them to the agent.
"""

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.wire.signals import SignalBody
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore


class SignalSender:
    """Sender of signals to sessions."""

    def __init__(
        self,
        *,
        store: SessionStore,
        signals: SignalStore,
        notifier: Notifier,
        signal_locks: SignalLocks,
    ) -> None:
        self._store = store
        self._signals = signals
        self._notifier = notifier
        self._signal_locks = signal_locks

    async def send(self, session: SessionRow, body: SignalBody) -> int | None:
        """Queue a signal for a session; return its number, or None if the session is over."""
        async with self._signal_locks.of(session.bindings.dm):
            seq = await self._signals.send(session.session_id, body)
        if seq is not None:
            self._notifier.notify(session.session_id)
        return seq

    async def send_replacing(self, session: SessionRow, body: SignalBody) -> None:
        """Queue a signal that replaces earlier unread ones of its kind."""
        async with self._signal_locks.of(session.bindings.dm):
            seq = await self._signals.send_replacing(session.session_id, body)
        if seq is not None:
            self._notifier.notify(session.session_id)

    async def send_to_agent(
        self, agent_id: str, body: SignalBody, session_id: str | None = None
    ) -> tuple[SessionRow, int]:
        """Queue a signal for an agent's running session; return the session and the signal's number.

        Raises Conflict when the agent does not run, is stopping, or runs another session than `session_id`.
        """
        session = await self._store.find_live(agent_id)
        if session is not None and session_id not in (None, session.session_id):
            raise Conflict(
                _(
                    "{agent_id} does not run {session_id}; its current session is {current_id}."
                ).format(agent_id=agent_id, session_id=session_id, current_id=session.session_id)
            )
        if session is None:
            raise Conflict(
                _(
                    "{agent_id} is not running. Start it with `choirctl agent start {agent_id}`."
                ).format(agent_id=agent_id)
            )
        if session.status == "stopping":
            raise Conflict(
                _("{agent_id} is stopping and accepts no more signals.").format(agent_id=agent_id)
            )
        seq = await self.send(session, body)
        if seq is None:
            raise Conflict(_("{agent_id} has just stopped.").format(agent_id=agent_id))
        return session, seq

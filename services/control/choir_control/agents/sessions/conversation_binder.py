"""Binding of running sessions to further conversations."""

from choir_control.agents.sessions.record import SessionRow
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier


class ConversationBinder:
    """Service that binds sessions to conversations beside the home conversation."""

    def __init__(
        self, *, store: ConversationStore, signal_locks: SignalLocks, notifier: Notifier
    ) -> None:
        self._store = store
        self._signal_locks = signal_locks
        self._notifier = notifier

    async def load(self) -> None:
        """Order the signals of the sessions that a previous control process left unfinished."""
        for dm, home_dm in (await self._store.list_homes()).items():
            self._signal_locks.join(dm, home_dm)

    async def bind(self, session: SessionRow, dm: str, gateway: str) -> None:
        """Bind a running session to a further conversation; its signal stream is opened again.

        Raises Conflict if another session has the conversation.
        """
        home = session.bindings.dm
        # Both: no signal of the conversation may be under way while its order changes.
        async with self._signal_locks.of_both(dm, home):
            await self._store.bind(session.session_id, session.agent_id, dm, gateway)
            self._signal_locks.join(dm, home)
        self._notifier.notify(session.session_id)

    async def unbind(self, session: SessionRow, dm: str) -> None:
        """End a further conversation of a session; its signal stream is opened again."""
        async with self._signal_locks.of_both(dm, session.bindings.dm):
            await self._store.unbind(session.session_id, dm)
            self._signal_locks.leave(dm)
        self._notifier.notify(session.session_id)

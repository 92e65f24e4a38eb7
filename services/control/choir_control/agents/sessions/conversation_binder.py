"""Binding of running sessions to further conversations."""

from choir_control.agents.sessions.record import SessionRow
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier


class ConversationBinder:
    """Service that binds sessions to conversations beside the home conversation."""

    def __init__(
        self,
        *,
        store: ConversationStore,
        signal_locks: SignalLocks,
        notifier: Notifier,
        authenticator: LeaseAuthenticator,
    ) -> None:
        self._store = store
        self._signal_locks = signal_locks
        self._notifier = notifier
        self._authenticator = authenticator

    async def load(self) -> None:
        """Order the signals of the sessions that a previous control process left unfinished."""
        for dm, home_dm in (await self._store.list_homes()).items():
            self._signal_locks.join(dm, home_dm)

    async def begin(self, session: SessionRow) -> None:
        """Order the signals of a session before the agent of its next epoch starts."""
        home = session.bindings.dm
        # The conversation may have been a further one of another session before.
        async with self._signal_locks.of(home):
            self._signal_locks.leave(home)
        for dm in await self._store.list_bound(session.session_id):
            async with self._signal_locks.of_both(dm, home):
                self._signal_locks.join(dm, home)

    async def bind(self, session: SessionRow, dm: str, gateway: str) -> None:
        """Bind a running session to a further conversation; its signal stream is opened again.

        Raises Conflict if another session has the conversation, or if the session is incognito.
        """
        home = session.bindings.dm
        # Both: no signal of the conversation may be under way while its order changes.
        async with self._signal_locks.of_both(dm, home):
            await self._store.bind(session.session_id, session.agent_id, dm, gateway)
            self._signal_locks.join(dm, home)
        self._announce(session)

    async def unbind(self, session: SessionRow, dm: str, *, only_if_idle: bool = False) -> bool:
        """End a further conversation of a session; its signal stream is opened again.

        With `only_if_idle` nothing changes, and the result is False, while one of its messages is open.
        """
        async with self._signal_locks.of_both(dm, session.bindings.dm):
            if not await self._store.unbind(session.session_id, dm, only_if_idle=only_if_idle):
                return False
            self._signal_locks.leave(dm)
        self._announce(session)
        return True

    async def refresh_settings(self, session: SessionRow) -> None:
        """Let a session's agent fetch its settings again, because people of its conversations changed."""
        await self._store.refresh_settings(session.session_id)
        self._authenticator.forget(session.session_id)

    def _announce(self, session: SessionRow) -> None:
        # The cached lease has the conversations of before.
        self._authenticator.forget(session.session_id)
        self._notifier.notify(session.session_id)

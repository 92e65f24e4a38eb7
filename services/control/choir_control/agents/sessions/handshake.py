"""INIT_HELLO handshake: returns the head of the durable log and what the agent needs to continue."""

from collections.abc import Sequence

from choir_common.errors import Fenced
from choir_common.wire.events import Event
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HelloRequest, HelloResponse
from choir_control.agents.sessions.predecessor_log import (
    SESSION_HEAD_TYPES,
    PredecessorLogReader,
)
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.configuration.memory_readers import MemoryReaders
from choir_control.images.image_store import ImageStore
from choir_control.log.eventlog.recovery_store import LogTailReader
from choir_control.log.leases.store import Lease


class HandshakeService:
    """The recovery handshake of a starting agent."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        logs: LogTailReader,
        predecessor_log: PredecessorLogReader,
        configuration: ConfigService,
        image_store: ImageStore,
    ) -> None:
        self._sessions = sessions
        self._predecessor_log = predecessor_log
        self._logs = logs
        self._configuration = configuration
        self._image_store = image_store

    async def greet(self, lease: Lease, request: HelloRequest) -> HelloResponse:
        """Mark the agent as connected; return the log's head, its newest events and the settings.

        Raises Fenced when the request does not match the lease's agent, session and epoch, and
        InvalidRequest when
        the agent runs another image than the one built for it.
        """
        identity = (request.agent_id, request.session_id, request.epoch)
        if identity != (lease.agent_id, lease.session_id, lease.epoch):
            raise Fenced(f"This lease is for epoch {lease.epoch} of {lease.agent_id}.")
        self._image_store.check_hello(request)
        session = await self._sessions.mark_connected(lease.session_id, lease.epoch)
        if session is None:
            raise Fenced("This epoch is over.")
        snapshot = self._configuration.current
        head = session.head
        tail = await self._logs.tail(session.session_id, head.rev)
        return HelloResponse(
            status="resumed" if head.rev else "fresh",
            epoch=session.epoch,
            continues=session.continues,
            resource_bindings=snapshot.complete_bindings(session.agent_id, session.bindings),
            snapshot=await self._predecessor(session, tail, lease.served_dms),
            head_rev=head.rev,
            head_hash=head.hash,
            tail_events=tuple(event for event in tail if event.rev <= head.rev),
            config_version=snapshot.version_for(session.settings_rev),
            config=snapshot.settings_for(session.agent_id, session.bindings, lease.bound_dms),
            memory_mode=session.memory_mode,
            previous_memory_mode=await self._sessions.read_previous_mode(session),
        )

    async def _predecessor(
        self, session: SessionRow, tail: list[Event], served: Sequence[str]
    ) -> JsonObject | None:
        """Return the newest events of the session that this one continues, until they are copied."""
        must_copy = not session.head.rev or (tail and tail[-1].type in SESSION_HEAD_TYPES)
        if not must_copy or session.continues is None:
            return None
        before = await self._sessions.get(session.continues)
        if before is None or not before.head.rev:
            return None
        if before.memory_mode == INCOGNITO and session.memory_mode != INCOGNITO:
            return None  # `create` never continues one; checked again where its text would leave control
        readers = MemoryReaders(self._configuration.current.people)
        home, home_before = session.bindings.dm, before.bindings.dm
        if not readers.shares(session.agent_id, home, home_before, served=served):
            # the lane of the home conversation would pass from one person to another
            return None
        events = await self._predecessor_log.read(before.session_id, before.head.rev)
        return {"events": [event.model_dump(mode="json") for event in events]}

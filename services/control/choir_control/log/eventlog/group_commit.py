"""Group commit: one statement stores the pending batches of several sessions.

No batch waits for others to arrive: if a writer is free, it is stored at once and alone. Batches that
arrive while all writers are busy share the next statement. The cost of a heartbeat therefore falls as
the load grows.
"""

import asyncio
from dataclasses import dataclass, field

from choir_common.errors import OutcomeUnknown
from choir_common.postgres.pool import StatementError
from choir_control.log.eventlog.batch import EventBatch
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.store import Lease

# While Postgres executes one statement, the next one can be prepared.
WRITERS = 2
# Limits of one statement. It should take milliseconds, because every session in it waits for all
# others.
MAX_SESSIONS = 100
MAX_EVENTS = 200

# The sessions that were stored, or None: Postgres refused the statement, and each batch is retried
# alone.
StoredSessions = set[str] | None
GroupResult = asyncio.Future[StoredSessions]


@dataclass(slots=True)
class _CommitGroup:
    """Batches of different sessions that share a statement, and the futures of all but the first caller."""

    asks: dict[str, tuple[Lease, EventBatch]] = field(default_factory=dict)
    results: list[GroupResult] = field(default_factory=list)
    events: int = 0

    def takes(self, session_id: str, events: int) -> bool:
        """Return True if a batch fits; two batches of one session never share a statement."""
        room = len(self.asks) < MAX_SESSIONS and self.events + events <= MAX_EVENTS
        return room and session_id not in self.asks

    def add(self, lease: Lease, batch: EventBatch) -> None:
        self.asks[lease.session_id] = lease, batch
        self.events += len(batch.events)

    def resolve(self, session_ids: StoredSessions) -> None:
        for result in self.results:
            if not result.done():
                result.set_result(session_ids)

    def fail(self, error: Exception) -> None:
        for result in self.results:
            if not result.done():
                result.set_exception(error)


class GroupCommit:
    """Writer of batches without effects; groups them while they have to wait anyway."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._writers = asyncio.Semaphore(WRITERS)
        self._gathering: _CommitGroup | None = None

    async def append(self, lease: Lease, batch: EventBatch) -> bool:
        """Store a batch without effects; return False if its base is not the head of the log."""
        group = self._gathering
        if group is not None and group.takes(lease.session_id, len(batch.events)):
            group.add(lease, batch)
            result: GroupResult = asyncio.get_running_loop().create_future()
            group.results.append(result)
            session_ids = await result
        else:
            group = self._gathering = _CommitGroup()
            group.add(lease, batch)
            session_ids = await self._write_group(group)
        if session_ids is None:
            session_ids = await self._store.append_group([(lease, batch)])
        return lease.session_id in session_ids

    async def _write_group(self, group: _CommitGroup) -> StoredSessions:
        """Store a group as soon as a writer is free, and notify the callers that joined it."""
        try:
            # Until a writer is free, other batches may join the group.
            async with self._writers:
                self._close(group)
                session_ids: StoredSessions = await self._store.append_group(
                    list(group.asks.values())
                )
        # One invalid batch must not fail the others: each caller then tries its own alone.
        except StatementError:
            session_ids = None
        except BaseException as error:
            self._close(group)
            # The caller that executes the statement may be cancelled. The others must not be
            # cancelled with it: they get OutcomeUnknown.
            group.fail(error if isinstance(error, Exception) else OutcomeUnknown())
            raise
        group.resolve(session_ids)
        return session_ids

    def _close(self, group: _CommitGroup) -> None:
        if self._gathering is group:
            self._gathering = None

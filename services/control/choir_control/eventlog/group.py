"""Group commit: one statement stores the pending batches of several sessions.

Called by `append`, calls `store`. No batch waits for others to arrive: if a writer is free, it is
stored at once and alone. Batches that arrive while all writers are busy share the next statement.
The cost of a heartbeat therefore falls as the load grows.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from choir_common.errors import OutcomeUnknown
from choir_common.postgres.pool import Refused
from choir_control.eventlog.intake import Batch
from choir_control.eventlog.store import EventStore
from choir_control.leases.store import Lease

# While Postgres executes one statement, the next one can be prepared.
WRITERS = 2
# Limits of one statement. It should take milliseconds, because every session in it waits for all
# others.
MOST_SESSIONS = 100
MOST_EVENTS = 200

# The sessions that were stored, or None: Postgres refused the statement, and each batch is retried
# alone.
Stored = set[str] | None
Told = asyncio.Future[Stored]


@dataclass(slots=True)
class _Group:
    """Batches of different sessions that share a statement, and the futures of all but the first caller."""

    asks: dict[str, tuple[Lease, Batch]] = field(default_factory=dict)
    joined: list[Told] = field(default_factory=list)
    events: int = 0

    def takes(self, session_id: str, events: int) -> bool:
        """Return True if a batch fits; two batches of one session never share a statement."""
        room = len(self.asks) < MOST_SESSIONS and self.events + events <= MOST_EVENTS
        return room and session_id not in self.asks

    def add(self, lease: Lease, batch: Batch) -> None:
        self.asks[lease.session_id] = lease, batch
        self.events += len(batch.events)

    def tell(self, how: Callable[[Told], None]) -> None:
        for told in self.joined:
            if not told.done():
                how(told)


class GroupedAppends:
    """Writer of batches without effects; groups them while they have to wait anyway."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._writers = asyncio.Semaphore(WRITERS)
        self._gathering: _Group | None = None

    async def append(self, lease: Lease, batch: Batch) -> bool:
        """Store a batch without effects; return False if its base is not the head of the log."""
        group = self._gathering
        if group is not None and group.takes(lease.session_id, len(batch.events)):
            group.add(lease, batch)
            told: Told = asyncio.get_running_loop().create_future()
            group.joined.append(told)
            stored = await told
        else:
            group = self._gathering = _Group()
            group.add(lease, batch)
            stored = await self._lead(group)
        if stored is None:
            stored = await self._store.append_work([(lease, batch)])
        return lease.session_id in stored

    async def _lead(self, group: _Group) -> Stored:
        """Store a group as soon as a writer is free, and notify the callers that joined it."""
        try:
            # Until a writer is free, other batches may join the group.
            async with self._writers:
                self._close(group)
                stored: Stored = await self._store.append_work(list(group.asks.values()))
        # One invalid batch must not fail the others: each caller then tries its own alone.
        except Refused:
            stored = None
        except BaseException as error:
            self._close(group)
            # The caller that executes the statement may be cancelled. The others must not be
            # cancelled with it: they get OutcomeUnknown.
            why = error if isinstance(error, Exception) else OutcomeUnknown()
            group.tell(lambda told: told.set_exception(why))
            raise
        group.tell(lambda told: told.set_result(stored))
        return stored

    def _close(self, group: _Group) -> None:
        if self._gathering is group:
            self._gathering = None

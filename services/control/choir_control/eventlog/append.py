"""Append of a heartbeat's events to the durable log, or the reason why they do not fit.

Called for the verb HEARTBEAT. The new outbox rows are passed to `offer`, which starts their
delivery. See docs/design/log-and-recovery.md.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from choir_common.errors import Conflict, Fenced
from choir_common.eventlog.chain import Head
from choir_common.wire.events import GENESIS, Event
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.rpc import HeartbeatRequest
from choir_control.eventlog.group import GroupedAppends
from choir_control.eventlog.intake import Batch, Words, read_heartbeat, rest_of
from choir_control.eventlog.pace import Pace
from choir_control.eventlog.store import EventStore
from choir_control.leases.store import Lease
from choir_control.metrics.meter import Meter
from choir_control.workspaces.outgoing import Outgoing

# Another heartbeat of the same agent may be stored between the attempt and the check that follows
# it, but hardly more than once.
ATTEMPTS = 4
# Batches with more events than this are stored one at a time, so that large ones do not delay small
# ones.
MUCH = 50

Offer = Callable[[Sequence[OutboundMessage]], None]
Rescan = Callable[[str], None]
Heard = Callable[[Lease, Sequence[Event]], None]
"""Receives every batch that became durable, including empty ones."""


class Appender:
    """Writer of agents' events to the durable log."""

    def __init__(
        self,
        store: EventStore,
        offer: Offer,
        rescan: Rescan,
        outgoing: Outgoing,
        heard: Heard,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._group = GroupedAppends(store)
        self._pace = Pace()
        self._much = asyncio.Semaphore(1)
        self._offer = offer
        self._rescan = rescan
        self._outgoing = outgoing
        self._heard = heard
        self._meter = meter

    async def append(self, lease: Lease, request: HeartbeatRequest) -> int:
        """Make a heartbeat's events durable and return the acknowledged revision.

        Raises BadInput for events that contradict each other. Raises Fenced for a fork, a gap, or
        an epoch that is over; the agent must stop then.
        """
        began = time.perf_counter()
        rev = await self._append(lease, request)
        if self._meter is not None:
            self._meter.note_heartbeat(time.perf_counter() - began)
        return rev

    async def _append(self, lease: Lease, request: HeartbeatRequest) -> int:
        if request.epoch != lease.epoch or request.agent_id != lease.agent_id:
            raise Fenced(f"This session is at epoch {lease.epoch} of agent {lease.agent_id}.")
        # Before the parsing, which is the expensive part of a heartbeat.
        wait_s = self._pace.wait_s(lease.session_id)
        if wait_s:
            await asyncio.sleep(wait_s)
        batch = await read_heartbeat(request, lease.session_id, lease.dm)
        for _ in range(ATTEMPTS):
            if await self._store_batch(lease, batch):
                return request.new_rev
            durable = await self._store.durable(lease)
            if not durable.live:
                raise Fenced("This session has ended or another epoch has taken over.")
            if durable.head.rev >= batch.head.rev:
                await self._check_same(lease, batch, batch.head)
                # The first attempt may have been stored although its result was lost with the
                # connection. Its outbox rows were not offered then.
                self._rescan(lease.dm)
                return request.new_rev
            if durable.head.rev < batch.base.rev:
                raise Fenced(
                    f"Events are missing: the log ends at revision {durable.head.rev}, these "
                    f"follow {batch.base.rev}."
                )
            # A part of the batch is durable already: try again with the rest.
            _check_contains(batch, durable.head)
            batch = rest_of(batch, durable.head, lease.dm)
        raise Conflict("Several heartbeats of this session arrive at once; send one at a time.")

    async def _store_batch(self, lease: Lease, batch: Batch) -> bool:
        batch = await self._copied(lease, batch)
        said = await self._store_events(lease, batch)
        if said is None:
            return False
        self._pace.told(lease.session_id, len(batch.events))
        self._heard(lease, batch.events)
        if self._meter is not None:
            self._meter.note_events(lease.agent_id, batch.events)
        if said:
            self._offer(said)
        return True

    async def _store_events(self, lease: Lease, batch: Batch) -> Sequence[OutboundMessage] | None:
        if len(batch.events) > MUCH:
            async with self._much:
                return await self._store.append(lease, batch)
        if batch.tells_only_of_work:
            return () if await self._group.append(lease, batch) else None
        return await self._store.append(lease, batch)

    async def _copied(self, lease: Lease, batch: Batch) -> Batch:
        """Return the batch with copies of the files that it sends.

        Copies are made before the append, so that a stored reply never refers to a file that has
        changed since.
        """
        if not any(words.files for words in batch.words):
            return batch
        words = [await self._with_copies(lease, said) for said in batch.words]
        return replace(batch, words=tuple(words))

    async def _with_copies(self, lease: Lease, said: Words) -> Words:
        if not said.files:
            return said
        workspace = lease.bindings.workspace
        kept = await self._outgoing.keep(said.event_hash, workspace, said.files)
        text = "\n".join(part for part in (said.text, *kept.problems) if part)
        return replace(said, text=text, kept=kept.files)

    async def _check_same(self, lease: Lease, batch: Batch, head: Head) -> None:
        stored = await self._store.hash_at(lease.session_id, head.rev) if head.rev else GENESIS
        if stored != head.hash:
            raise _fork(head.rev)


def _check_contains(batch: Batch, durable: Head) -> None:
    """Raise Fenced unless the batch contains the durable head."""
    known = {batch.base.rev: batch.base.hash} | {e.rev: e.hash for e in batch.events}
    if known.get(durable.rev) != durable.hash:
        raise _fork(durable.rev)


def _fork(rev: int) -> Fenced:
    return Fenced(f"The logs differ at revision {rev}: this is a fork, and the durable log stands.")

"""Append of a heartbeat's events to the durable log, or the reason why they do not fit.

New outbox rows are offered for delivery at once. Sessions above the event rate limit are slowed
down, not refused, so that a runaway agent costs the others little (GUARANTEES S21): their events are
stored, and their heartbeats still count as signs of life. See docs/design/log-and-recovery.md.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from choir_common.clock import Clock, SystemClock
from choir_common.errors import Conflict, Fenced
from choir_common.eventlog.chain import LogHead
from choir_common.wire.events import GENESIS, Event
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.rpc import HeartbeatRequest
from choir_control.log.eventlog.batch import (
    EventBatch,
    OutgoingReply,
    make_copy,
    parse_heartbeat,
    trim_batch,
)
from choir_control.log.eventlog.group_commit import GroupCommit
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.store import Lease
from choir_control.log.metrics.meter import ControlMetrics
from choir_control.log.signals.notifier import OutboxRescanner
from choir_control.money.charges import ChargePricer
from choir_control.money.cost_metrics import CostMetrics
from choir_control.workspaces.outgoing_files import OutgoingFiles

# A busy agent writes some hundred events a second. Ten thousand that accumulated during an outage
# take three seconds.
EVENTS_PER_S = 2_000.0
BURST_EVENTS = 5_000.0
# Sessions in memory; one that was dropped starts with a full burst.
MAX_SESSIONS = 2_000
# Another heartbeat of the same agent may be stored between the attempt and the check that follows
# it, but hardly more than once.
ATTEMPTS = 4
# Batches with more events than this are stored one at a time, so that large ones do not delay small
# ones.
LARGE_BATCH_EVENTS = 50


class OutboxDelivery(OutboxRescanner, Protocol):
    """Outbox worker, as seen by the append of replies."""

    def offer(self, messages: Sequence[OutboundMessage]) -> None:
        """Queue messages that were just stored."""


class FollowerResolver(Protocol):
    """Reader of the conversations that get copies of replies."""

    def followers_of(self, dm: str, dms: Collection[str]) -> Sequence[str]:
        """Return which of the conversations `dms` follow `dm`."""


class EventListener(Protocol):
    """Receiver of every batch that became durable, including empty ones."""

    def note_events(self, lease: Lease, events: Sequence[Event]) -> None:
        """Take note of an agent's durable events."""


class EventRateLimiter:
    """The token bucket of each session."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        # The time at which all events stored so far will have been paid for, by session.
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, session_id: str) -> float:
        """Return the seconds that a session must wait before its next append."""
        ahead = self._paid_at.get(session_id, 0.0) - self._clock.monotonic()
        return max(0.0, ahead - BURST_EVENTS / EVENTS_PER_S)

    def count(self, session_id: str, events: int) -> None:
        """Count stored events; events that could not be stored will be sent again and cost nothing."""
        now = self._clock.monotonic()
        paid_at = max(self._paid_at.get(session_id, now), now) + events / EVENTS_PER_S
        self._paid_at[session_id] = paid_at
        self._paid_at.move_to_end(session_id)
        if len(self._paid_at) > MAX_SESSIONS:
            self._paid_at.popitem(last=False)


class EventAppender:
    """Writer of agents' events to the durable log."""

    def __init__(
        self,
        *,
        store: EventStore,
        outbox: OutboxDelivery,
        outgoing_files: OutgoingFiles,
        listeners: Sequence[EventListener],
        followers: FollowerResolver,
        pricer: ChargePricer,
        cost_metrics: CostMetrics,
        metrics: ControlMetrics | None = None,
    ) -> None:
        self._pricer = pricer
        self._cost_metrics = cost_metrics
        self._store = store
        self._group = GroupCommit(store)
        self._rate_limiter = EventRateLimiter()
        self._large_batches = asyncio.Semaphore(1)
        self._outbox = outbox
        self._outgoing_files = outgoing_files
        self._listeners = listeners
        self._followers = followers
        self._metrics = metrics

    async def append(self, lease: Lease, request: HeartbeatRequest) -> int:
        """Make a heartbeat's events durable and return the acknowledged revision.

        Raises InvalidRequest for events that contradict each other. Raises Fenced for a fork, a gap, or
        an epoch that is over; the agent must stop then.
        """
        began = time.perf_counter()
        rev = await self._append(lease, request)
        if self._metrics is not None:
            self._metrics.count_heartbeat(time.perf_counter() - began)
        return rev

    async def _append(self, lease: Lease, request: HeartbeatRequest) -> int:
        if request.epoch != lease.epoch or request.agent_id != lease.agent_id:
            raise Fenced(f"This session is at epoch {lease.epoch} of agent {lease.agent_id}.")
        # Before the parsing, which is the expensive part of a heartbeat.
        wait_s = self._rate_limiter.wait_s(lease.session_id)
        if wait_s:
            await asyncio.sleep(wait_s)
        batch = await parse_heartbeat(request, lease.session_id, lease.dms)
        for _ in range(ATTEMPTS):
            if await self._store_batch(lease, batch):
                return request.new_rev
            durable = await self._store.read_head(lease)
            if not durable.live:
                raise Fenced("This session has ended or another epoch has taken over.")
            if durable.head.rev >= batch.head.rev:
                await self._check_same(lease, batch, batch.head)
                # The first attempt may have been stored although its result was lost with the
                # connection. Its outbox rows were not offered then.
                for dm in lease.dms:
                    self._outbox.rescan(dm)
                return request.new_rev
            if durable.head.rev < batch.base.rev:
                raise Fenced(
                    f"Events are missing: the log ends at revision {durable.head.rev}, these "
                    f"follow {batch.base.rev}."
                )
            # A part of the batch is durable already: try again with the rest.
            _check_contains(batch, durable.head)
            batch = trim_batch(batch, durable.head, lease.dms)
        raise Conflict(
            "Several heartbeats of this session arrived at the same time; send one at a time."
        )

    async def _store_batch(self, lease: Lease, batch: EventBatch) -> bool:
        batch = self._price(lease, await self._copy_files(lease, batch))
        batch = self._copy_to_followers(lease, batch)
        replies = await self._store_events(lease, batch)
        if replies is None:
            return False
        self._rate_limiter.count(lease.session_id, len(batch.events))
        for listener in self._listeners:
            listener.note_events(lease, batch.events)
        self._cost_metrics.count(batch.charges)
        if self._metrics is not None:
            self._metrics.count_events(lease.agent_id, batch.events)
        if replies:
            self._outbox.offer(replies)
        return True

    async def _store_events(
        self, lease: Lease, batch: EventBatch
    ) -> Sequence[OutboundMessage] | None:
        if len(batch.events) > LARGE_BATCH_EVENTS:
            async with self._large_batches:
                return await self._store.append(lease, batch)
        if batch.has_no_effects:
            return () if await self._group.append(lease, batch) else None
        return await self._store.append(lease, batch)

    def _copy_to_followers(self, lease: Lease, batch: EventBatch) -> EventBatch:
        """Return the batch with copies of its replies for conversations that follow."""
        copies = tuple(
            make_copy(reply, dm)
            for reply in batch.replies
            if reply.kind != "notice"
            for dm in self._followers.followers_of(reply.dm, lease.dms)
        )
        return replace(batch, copies=copies) if copies else batch

    def _price(self, lease: Lease, batch: EventBatch) -> EventBatch:
        """Return the batch with its usage and grants priced."""
        if not (batch.usages or batch.grants):
            return batch
        return replace(
            batch,
            charges=self._pricer.price(lease.agent_id, batch.usages),
            priced_grants=self._pricer.price_grants(lease.agent_id, lease.dms, batch.grants),
        )

    async def _copy_files(self, lease: Lease, batch: EventBatch) -> EventBatch:
        """Return the batch with copies of the files that it sends.

        Copies are made before the append, so that a stored reply never refers to a file that has
        changed since.
        """
        if not any(reply.files for reply in batch.replies):
            return batch
        replies = [await self._copy_reply_files(lease, reply) for reply in batch.replies]
        return replace(batch, replies=tuple(replies))

    async def _copy_reply_files(self, lease: Lease, reply: OutgoingReply) -> OutgoingReply:
        if not reply.files:
            return reply
        workspace = lease.bindings.workspace
        copies = await self._outgoing_files.keep(reply.event_hash, workspace, reply.files)
        text = "\n".join(part for part in (reply.text, *copies.problems) if part)
        return replace(reply, text=text, spooled_files=copies.files)

    async def _check_same(self, lease: Lease, batch: EventBatch, head: LogHead) -> None:
        durable_hash = (
            await self._store.read_hash(lease.session_id, head.rev) if head.rev else GENESIS
        )
        if durable_hash != head.hash:
            raise _fork(head.rev)


def _check_contains(batch: EventBatch, durable: LogHead) -> None:
    """Raise Fenced unless the batch contains the durable head."""
    hashes = {batch.base.rev: batch.base.hash} | {e.rev: e.hash for e in batch.events}
    if hashes.get(durable.rev) != durable.hash:
        raise _fork(durable.rev)


def _fork(rev: int) -> Fenced:
    return Fenced(
        f"The logs differ at revision {rev}: this is a fork, and the durable log is authoritative."
    )

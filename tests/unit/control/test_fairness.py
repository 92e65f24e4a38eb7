"""One who tells much waits for himself; he keeps nobody else waiting."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from choir_common.clock import SystemClock
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.eventlog.signature import AuditKeyring
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config, FileLimits
from choir_common.wire.events import Event, ToolCallRequested
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.rpc import HeartbeatRequest, ResourceBindings
from choir_control.log.eventlog.append import (
    BURST_EVENTS,
    EVENTS_PER_S,
    LARGE_BATCH_EVENTS,
    MAX_SESSIONS,
    EventAppender,
    EventRateLimiter,
)
from choir_control.log.eventlog.batch import EVENTS_PER_SLICE, EventBatch, parse_heartbeat
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.store import Lease
from choir_control.money.charges import ChargePricer
from choir_control.money.cost_metrics import CostMetrics
from choir_control.workspaces.outgoing_files import OutboxFileStore, OutgoingFiles
from choir_control.workspaces.spool import FileSpool
from tests.support.fixed_configuration import FixedConfiguration

BOUND = ResourceBindings(workspace="w", llm="l", dm="d")


def heartbeat(session_id: str, count: int) -> HeartbeatRequest:
    head, events = LogHead(), list[Event]()
    for number in range(count):
        call = ToolCallRequested(turn_id="t", call_id=f"c{number}", tool="x", input={})
        events.append(link_event(head, session_id, "edge", call, datetime.now(UTC)))
        head = head_of(events[-1])
    return HeartbeatRequest(
        agent_id="main",
        epoch=1,
        base_rev=0,
        new_rev=count,
        patches=tuple(events),
        config_version=1,
        hash_prev=LogHead().hash,
        hash_new=head.hash,
        timestamp="",
    )


NOTHING = Database("", None, size=1, application="test")


class NoWorkspaces:
    """A configuration without workspaces."""

    file_limits = FileLimits()

    def workspace_path(self, workspace: str) -> Path | None:
        return None


NO_FILES = OutgoingFiles(
    spool=FileSpool(Path("/nowhere")), store=OutboxFileStore(NOTHING), settings=NoWorkspaces()
)


class IdleOutbox:
    """An outbox that delivers nothing."""

    def offer(self, messages: Sequence[OutboundMessage]) -> None:
        pass

    def rescan(self, dm: str) -> None:
        pass


class NobodyFollows:
    """No conversation gets copies."""

    def followers_of(self, dm: str, dms: Collection[str]) -> Sequence[str]:
        return ()


class IdleListener:
    """A listener that ignores all events."""

    def note_events(self, lease: Lease, events: Sequence[Event]) -> None:
        pass


class SlowStore(EventStore):
    """A store where long batches wait for a gate; it knows in which order batches came."""

    def __init__(self) -> None:
        super().__init__(Database("", None, size=1, application="test"), AuditKeyring())
        self.gate = asyncio.Event()
        self.came: list[str] = []

    async def append(self, lease: Lease, batch: EventBatch) -> list[OutboundMessage] | None:
        self.came.append(lease.session_id)
        await self.gate.wait()
        return []

    async def append_group(self, asks: Sequence[tuple[Lease, EventBatch]]) -> set[str]:
        self.came += [lease.session_id for lease, _ in asks]
        return {lease.session_id for lease, _ in asks}


async def test_long_heartbeats_are_stored_one_at_a_time_and_short_ones_pass_them() -> None:
    store = SlowStore()
    appender = EventAppender(
        store=store,
        outbox=IdleOutbox(),
        outgoing_files=NO_FILES,
        listeners=(IdleListener(),),
        followers=NobodyFollows(),
        cost_metrics=CostMetrics(Metrics("test")),
        pricer=ChargePricer(FixedConfiguration(Config(agents={}, workspaces={}))),
    )

    def send(session_id: str, count: int) -> "asyncio.Task[int]":
        lease = Lease(session_id, "main", 1, b"", BOUND)
        return asyncio.create_task(appender.append(lease, heartbeat(session_id, count)))

    long = [send(f"long{number}", LARGE_BATCH_EVENTS + 1) for number in range(3)]
    async with asyncio.timeout(60):
        while not store.came:
            await asyncio.sleep(0)
        for number in range(5):
            assert await send(f"short{number}", 1) == 1
        assert store.came == ["long0", *(f"short{number}" for number in range(5))]
        store.gate.set()
        assert await asyncio.gather(*long) == [LARGE_BATCH_EVENTS + 1] * 3


async def test_while_a_long_heartbeat_is_read_others_have_their_turn() -> None:
    slices = 10
    request = heartbeat("ses_1", EVENTS_PER_SLICE * slices)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    batch = await parse_heartbeat(request, "ses_1", "d")
    waiting.cancel()
    assert turns >= slices - 1
    assert batch.head.rev == EVENTS_PER_SLICE * slices == len(batch.payloads)


class ManualClock(SystemClock):
    """A clock that is moved by hand."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


def tell(pace: EventRateLimiter, events: int) -> float:
    wait_s = pace.wait_s("a")
    pace.count("a", events)
    return wait_s


def test_a_burst_goes_at_once_and_what_comes_after_it_at_the_pace() -> None:
    clock = ManualClock()
    pace = EventRateLimiter(clock)
    assert sum(tell(pace, 100) for _ in range(int(BURST_EVENTS) // 100)) == 0
    assert tell(pace, 100) == 0
    assert round(tell(pace, 100), 6) == 100 / EVENTS_PER_S
    assert pace.wait_s("b") == 0, "another session has its own"
    clock.seconds += 200 / EVENTS_PER_S
    assert round(tell(pace, 100), 6) == 0
    clock.seconds += 1_000
    assert tell(pace, 100) == 0


def test_what_could_not_be_stored_costs_nothing() -> None:
    pace = EventRateLimiter(ManualClock())
    pace.count("a", int(BURST_EVENTS))
    assert [pace.wait_s("a") for _ in range(100)] == [0.0] * 100


def test_ten_thousand_events_that_gathered_go_within_ten_seconds() -> None:
    clock = ManualClock()
    pace, start = EventRateLimiter(clock), clock.seconds
    for _ in range(20):
        clock.seconds += tell(pace, 500)
    assert clock.seconds - start <= 4


def test_only_so_many_sessions_are_remembered() -> None:
    pace = EventRateLimiter(ManualClock())
    for number in range(MAX_SESSIONS * 2):
        pace.count(f"s{number}", 1)
    assert len(pace._paid_at) == MAX_SESSIONS

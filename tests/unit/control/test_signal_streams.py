"""A stream of signals reads the table once for each notification."""

import asyncio
from collections.abc import Sequence
from typing import cast

from choir_common.http.responses import KEEPALIVE
from choir_common.wire.rpc import ResourceBindings
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import Lease
from choir_control.log.signals.file_fetches import MessageFileFetcher
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore, StoredSignal
from choir_control.log.signals.streams import PAGE, SignalStreams

LEASE = Lease("ses_1", "main", 1, b"", ResourceBindings(workspace="w", llm="m", dm="console"))


class Table:
    """Signals in memory, with the number of reads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reads = 0

    async def list_pending(
        self, session_id: str, dm: str, after: int, limit: int
    ) -> list[StoredSignal]:
        """Return signals as the store does."""
        self.reads += 1
        last = min(self.count, after + limit)
        return [StoredSignal(seq, "inbox", "{}") for seq in range(after + 1, last + 1)]

    async def mark_delayed(self, page: Sequence[StoredSignal]) -> None:
        """Do nothing: no signal is delayed."""


class Everyone:
    """Authenticator of a lease that stays current."""

    async def is_current(self, lease: Lease) -> bool:
        """Return True."""
        return True


async def count_reads(table: Table, notifications: int) -> int:
    """Follow the table, with one more signal for each notification; return how often it was read."""
    notifier = Notifier()
    streams = SignalStreams(
        store=cast(SignalStore, table),
        notifier=notifier,
        authenticator=cast(LeaseAuthenticator, Everyone()),
        file_fetcher=cast(MessageFileFetcher, None),
        signal_locks=SignalLocks(),
    )
    received = 0

    async def follow() -> None:
        nonlocal received
        async for piece in streams.follow(LEASE, 0):
            received += piece != KEEPALIVE

    following = asyncio.create_task(follow())
    for number in range(notifications + 1):
        if number:
            table.count += 1
            notifier.notify("ses_1")
        for _ in range(20):
            await asyncio.sleep(0)
    following.cancel()
    await asyncio.wait([following])
    assert received == table.count
    return table.reads


async def test_each_signal_costs_one_read() -> None:
    assert await count_reads(Table(1), notifications=3) == 4


async def test_a_full_page_is_followed_by_another_read() -> None:
    assert await count_reads(Table(PAGE), notifications=0) == 2

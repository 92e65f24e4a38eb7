"""Locks: exclusive is exclusive, all or nothing, no deadlock, nobody starves (GUARANTEES 4)."""

import asyncio
import itertools

import pytest

from choir_agent.locks.claim import Claim, Lockset, keys_overlap
from choir_agent.locks.lock_manager import LockManager
from choir_agent.locks.lock_table import LockTable
from choir_common.wire.events import HeldLock
from choir_common.wire.rpc import AwaitedLock
from tests.unit.agent.lock_rules import meet, s, x


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("workspace", "workspace", True),
        ("workspace", "file:a", True),
        ("workspace", "choirtmp", False),
        ("workspace", "browser_tab", False),
        ("file:a", "file:a", True),
        ("file:a", "file:ab", False),
        ("file:a", "file:a/b", True),
        ("file:.", "file:a/b", True),
        ("browser_tab", "file:a", False),
    ],
)
def test_keys_overlap_where_they_name_something_in_common(
    one: str, other: str, together: bool
) -> None:
    assert keys_overlap(one, other) is keys_overlap(other, one) is together
    assert meet(one, other) is meet(other, one) is together


def granted(table: LockTable, owner: str, *locks: HeldLock) -> Claim | None:
    claim = table.request(owner, locks)
    return claim if claim.ticket in table.granted else None


def test_the_edge_may_read_a_file_while_a_core_job_has_the_workspace() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("workspace"))
    assert granted(table, "edge", s("file:a"))
    assert not granted(table, "core:two", s("file:a"))
    assert not granted(table, "edge", x("file:b"))


def test_the_edges_reads_pass_those_who_wait_for_the_workspace_only_while_a_core_job_has_it() -> (
    None
):
    table = LockTable()
    first = granted(table, "core:one", x("workspace"))
    assert first
    assert not granted(table, "core:two", x("workspace"))
    early = granted(table, "edge", s("file:a"))
    assert early
    assert table.release(first) == []
    # nobody has the workspace now, so the job that waits for it goes before new reads
    assert not granted(table, "edge", s("file:b"))
    assert [claim.owner for claim in table.release(early)] == ["core:two", "edge"]


def test_a_read_that_a_command_just_let_pass_is_not_granted_twice() -> None:
    table = LockTable()
    writer = granted(table, "core:one", x("file:a"))
    assert writer
    command = table.request("core:two", (x("workspace"),))
    given_up = table.request("core:three", (x("workspace"),))
    read = table.request("edge", (s("file:a"),))
    # now both the command and the read wait for the writer alone
    assert table.release(given_up) == []
    assert table.release(writer) == [command, read]


def test_a_file_whose_name_reads_like_a_lock_of_core_jobs_is_a_file_like_any_other() -> None:
    table = LockTable()
    odd = "file:workspace by core jobs"
    assert granted(table, "core:one", x(odd))
    assert not granted(table, "edge", s(odd))


def test_the_edge_may_not_read_under_its_own_command() -> None:
    table = LockTable()
    assert granted(table, "edge", x("workspace"))
    assert not granted(table, "edge", s("file:a"))


def test_a_waiting_writer_goes_before_the_readers_that_come_after_it() -> None:
    table = LockTable()
    reader = granted(table, "core:one", s("file:a"))
    assert reader
    assert not granted(table, "core:two", x("file:a"))
    assert not granted(table, "core:one", s("file:a"))
    assert [claim.locks[0].mode for claim in table.release(reader)] == ["X"]


def test_a_lockset_that_is_partly_free_takes_nothing() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("file:a"))
    assert not granted(table, "core:two", x("browser_tab"), x("file:a"))
    assert [claim.owner for claim in table.granted.values()] == ["core:one"]


def test_a_long_line_moves_on_without_being_looked_through() -> None:
    looks = 0

    class CountingTable(LockTable):
        def _blocking_claim(self, claim: Claim) -> Claim | None:
            nonlocal looks
            looks += 1
            return super()._blocking_claim(claim)

    table = CountingTable()
    holder = granted(table, "core:one", x("file:a"))
    line = [table.request(f"core:{place}", (x("file:a"),)) for place in range(1000)]
    assert holder
    assert table.release(holder) == [line[0]]
    for one, following in itertools.pairwise(line):
        assert table.release(one) == [following]
    assert looks == 1000


def test_temporary_files_are_independent_of_the_workspace() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("workspace"))
    assert granted(table, "edge", x("choirtmp"))


async def hold_until(locks: LockManager, lockset: Lockset, leave: asyncio.Event) -> None:
    async with locks.hold("edge", lockset):
        await leave.wait()


async def test_a_cancelled_holder_and_a_cancelled_waiter_leave_nothing_behind() -> None:
    locks, leave = LockManager(), asyncio.Event()
    holder = asyncio.create_task(hold_until(locks, (x("file:a"),), leave))
    waiter = asyncio.create_task(hold_until(locks, (x("file:a"),), leave))
    third = asyncio.create_task(hold_until(locks, (s("file:a"),), leave))
    await asyncio.sleep(0)
    for task in (waiter, holder):
        task.cancel()
    await asyncio.wait({holder, waiter})
    leave.set()
    await third
    assert locks.claims() == ()


async def test_an_error_under_a_lock_gives_it_back() -> None:
    locks = LockManager()
    with pytest.raises(ValueError, match="broken"):
        async with locks.hold("edge", (x("workspace"),)):
            raise ValueError("broken")
    assert locks.claims() == ()


class WaitCounter:
    """A listener that counts what it is told."""

    def __init__(self) -> None:
        self.changes = 0

    def lock_waits_changed(self) -> None:
        self.changes += 1


async def test_a_wait_names_its_locks_and_the_lanes_before_it() -> None:
    locks, counter, leave = LockManager(), WaitCounter(), asyncio.Event()
    locks.follow_waits(counter)

    async def hold(owner: str, *lockset: HeldLock) -> None:
        async with locks.hold(owner, lockset):
            await leave.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold("core:one", x("file:a/b")))
        await asyncio.sleep(0)
        assert locks.waits_of("core:one") == () and counter.changes == 0
        tasks.create_task(hold("core:two", x("file:a"), x("browser_tab")))
        tasks.create_task(hold("edge", s("file:a/b")))
        await asyncio.sleep(0)
        assert counter.changes == 2
        assert locks.waits_of("core:two") == (
            AwaitedLock(resource="file:a", mode="X", lanes=("core:one",)),
        )
        assert locks.waits_of("edge") == (
            AwaitedLock(resource="file:a/b", mode="S", lanes=("core:one", "core:two")),
        )
        leave.set()
    assert locks.waits_of("core:two") == locks.waits_of("edge") == ()
    assert counter.changes == 4

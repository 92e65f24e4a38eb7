"""Locks of spec 9: exclusive is exclusive, all or nothing, no deadlock, nobody starves (GUARANTEES 4)."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from choir_agent.locks.keys import collide, dirty_read, overlap
from choir_agent.locks.locks import Locks
from choir_agent.locks.table import Claim, Lockset, LockTable
from choir_common.wire.events import LockHold

RESOURCES = ("workspace", "file:a", "file:a/b", "file:c", "file:.", "browser_tab", "choirtmp")
OWNERS = ("edge", "core:one", "core:two")


def s(resource: str) -> LockHold:
    return LockHold(resource=resource, mode="S")


def x(resource: str) -> LockHold:
    return LockHold(resource=resource, mode="X")


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
    assert overlap(one, other) is together
    assert overlap(other, one) is together


def barred(claim: Claim, earlier: Claim) -> bool:
    return any(
        collide(mine, theirs) and not dirty_read(claim.owner, mine, earlier.owner, theirs)
        for mine in claim.locks
        for theirs in earlier.locks
    )


class LockMachine(RuleBasedStateMachine):
    """Random claims and releases, judged by the rules of spec 9 instead of by the table's own code."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LockTable()
        self.claims: list[Claim] = []

    @rule(
        owner=st.sampled_from(OWNERS),
        locks=st.lists(
            st.builds(LockHold, resource=st.sampled_from(RESOURCES), mode=st.sampled_from("SX")),
            min_size=1,
            max_size=3,
            unique_by=lambda lock: lock.resource,
        ),
    )
    def ask(self, owner: str, locks: list[LockHold]) -> None:
        self.claims.append(self.table.ask(owner, tuple(locks)))
        self.table.grant()

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.claims:
            claim = data.draw(st.sampled_from(self.claims))
            self.claims.remove(claim)
            self.table.release(claim)
            self.table.grant()

    @invariant()
    def no_two_holders_collide(self) -> None:
        holders = list(self.table.holding.values())
        for place, one in enumerate(holders):
            for other in holders[place + 1 :]:
                assert not barred(one, other) or not barred(other, one)

    @invariant()
    def every_claim_holds_all_or_waits(self) -> None:
        known = self.table.holding.keys() | self.table.waiting.keys()
        assert known == {claim.ticket for claim in self.claims}
        assert not self.table.holding.keys() & self.table.waiting.keys()

    @invariant()
    def who_waits_is_barred_by_someone_before(self) -> None:
        for claim in self.table.waiting.values():
            before = [
                other
                for other in (*self.table.holding.values(), *self.table.waiting.values())
                if other.ticket < claim.ticket or other.ticket in self.table.holding
            ]
            assert any(barred(claim, other) for other in before)

    @invariant()
    def the_first_in_line_waits_for_holders_only(self) -> None:
        # so as long as holders end, somebody always goes: no deadlock, and nobody starves
        if self.table.waiting:
            first = self.table.waiting[min(self.table.waiting)]
            assert any(barred(first, holder) for holder in self.table.holding.values())


LockMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLockMachine = LockMachine.TestCase


def granted(table: LockTable, owner: str, *locks: LockHold) -> Claim | None:
    claim = table.ask(owner, locks)
    return claim if claim in table.grant() else None


def test_the_edge_may_read_a_file_while_a_core_job_has_the_workspace() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("workspace"))
    assert granted(table, "edge", s("file:a"))
    assert not granted(table, "core:two", s("file:a"))
    assert not granted(table, "edge", x("file:b"))


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
    table.release(reader)
    assert [claim.locks[0].mode for claim in table.grant()] == ["X"]


def test_a_lockset_that_is_partly_free_takes_nothing() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("file:a"))
    assert not granted(table, "core:two", x("browser_tab"), x("file:a"))
    assert [claim.owner for claim in table.holding.values()] == ["core:one"]


def test_temporary_files_are_independent_of_the_workspace() -> None:
    table = LockTable()
    assert granted(table, "core:one", x("workspace"))
    assert granted(table, "edge", x("choirtmp"))


async def hold_until(locks: Locks, lockset: Lockset, leave: asyncio.Event) -> None:
    async with locks.hold("edge", lockset):
        await leave.wait()


async def test_a_cancelled_holder_and_a_cancelled_waiter_leave_nothing_behind() -> None:
    locks, leave = Locks(), asyncio.Event()
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
    locks = Locks()
    with pytest.raises(ValueError, match="broken"):
        async with locks.hold("edge", (x("workspace"),)):
            raise ValueError("broken")
    assert locks.claims() == ()

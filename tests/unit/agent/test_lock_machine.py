"""Random claims on the real table and the real `LockManager`, judged by the plain rules (GUARANTEES 4, row
R10).

`make nightly` takes a million steps through each.
"""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.locks.lock_manager import LockManager
from choir_agent.locks.lock_table import LockTable
from choir_common.wire.events import HeldLock
from tests.support.state_machines import (
    CountingMachine,
    enough_steps,
    machine_runs,
    machine_settings,
)
from tests.unit.agent.lock_rules import Asked, PlainTable

RESOURCES = (
    "workspace",
    "file:.",
    "file:a",
    "file:a/b",
    "file:a/b/c",
    "file:ab",
    "file:c",
    "browser_tab",
    "choirtmp",
)
OWNERS = ("edge", "edge", "core:one", "core:two")
LOCKSETS = st.lists(
    st.builds(HeldLock, resource=st.sampled_from(RESOURCES), mode=st.sampled_from("SX")),
    min_size=1,
    max_size=3,
    unique_by=lambda lock: lock.resource,
).map(tuple)
FEW = st.one_of(
    LOCKSETS,
    # what tools really ask for, so that lines grow long
    st.sampled_from(
        [
            (HeldLock(resource="workspace", mode="X"),),
            (HeldLock(resource="file:a", mode="S"),),
            (HeldLock(resource="file:a", mode="X"),),
        ]
    ),
)


def asked(claim: Claim) -> Asked:
    return Asked(claim.ticket, claim.owner, claim.locks)


class TableMachine(CountingMachine):
    """The table beside its plain twin."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LockTable()
        self.plain = PlainTable()
        self.claims: list[Claim] = []

    @rule(owner=st.sampled_from(OWNERS), locks=FEW)
    def ask(self, owner: str, locks: Lockset) -> None:
        before = self.commanded()
        foreseen = {claim.ticket for claim in self.table.blocking_claims(owner, locks)}
        claim = self.table.request(owner, locks)
        self.claims.append(claim)
        self.plain.ask(asked(claim))
        assert bool(foreseen) == (claim.ticket in self.table.waiting)
        if claim.ticket in self.table.waiting:
            assert foreseen == {one.ticket for one in self.plain.obstacles(asked(claim))}
        else:
            self.nobody_was_passed([claim], excused=before)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.plain.release(claim.ticket)
        granted = self.table.release(claim)
        assert {one.ticket for one in granted} <= self.table.granted.keys()
        assert self.table.release(claim) == []
        self.nobody_was_passed(granted, excused=self.commanded())

    @precondition(lambda self: self.table.waiting)
    @rule()
    def all_holders_end(self) -> None:
        for claim in [*self.table.granted.values()]:
            self.claims.remove(claim)
            self.plain.release(claim.ticket)
            self.table.release(claim)

    def commanded(self) -> bool:
        return any(asked(claim).commands() for claim in self.table.granted.values())

    def nobody_was_passed(self, granted: list[Claim], *, excused: bool) -> None:
        """No claim goes past an earlier one it collides with: writer preference, no starvation."""
        for claim in granted:
            for waiter in self.table.waiting.values():
                if waiter.ticket < claim.ticket:
                    assert not asked(claim).barred_by(asked(waiter), excused=excused)

    @invariant()
    def it_decides_as_the_plain_table_does(self) -> None:
        assert self.table.granted.keys() == self.plain.holding.keys()
        assert self.table.waiting.keys() == self.plain.waiting.keys()

    @invariant()
    def no_two_holders_collide(self) -> None:
        holders = [asked(claim) for claim in self.table.granted.values()]
        for place, one in enumerate(holders):
            for other in holders[place + 1 :]:
                assert not one.barred_by(other, excused=True) or not other.barred_by(
                    one, excused=True
                )

    @invariant()
    def a_claim_holds_all_of_its_locks_or_waits_with_none(self) -> None:
        assert not self.table.granted.keys() & self.table.waiting.keys()
        known = self.table.granted.keys() | self.table.waiting.keys()
        assert known == {claim.ticket for claim in self.claims}

    @invariant()
    def the_first_in_line_waits_for_holders_only(self) -> None:
        # so as long as holders end, somebody always goes: no deadlock
        if self.table.waiting:
            first = asked(self.table.waiting[min(self.table.waiting)])
            holders = [asked(claim) for claim in self.table.granted.values()]
            assert any(first.barred_by(holder, excused=True) for holder in holders)

    def teardown(self) -> None:
        """When holders go on ending, the line drains, and nothing is left of anybody."""
        while self.table.granted:
            self.table.release(next(iter(self.table.granted.values())))
        assert not self.table.waiting
        table = self.table
        left = (table._watchers, table._watches, table._waiting_reads, table._granted_index._claims)
        assert not any(left) and not table._waiting_index._claims and table._granted_commands == 0


@dataclass(eq=False)
class Call:
    """A task that holds a lockset until it is told how to end."""

    owner: str
    locks: Lockset
    end: asyncio.Future[str]
    inside: bool = False
    task: asyncio.Task[None] | None = None

    async def run(self, locks: LockManager) -> None:
        """Be a tool call."""
        async with locks.hold(self.owner, self.locks):
            self.inside = True
            try:
                if await self.end == "error":
                    raise ValueError("the tool broke")
            finally:
                self.inside = False


class LocksMachine(CountingMachine):
    """Calls on a real event loop, which end, break and are cancelled while they hold or wait."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.locks = LockManager()
        self.calls: list[Call] = []

    def settle(self) -> None:
        async def pause() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(pause())

    @rule(owner=st.sampled_from(OWNERS), locks=FEW)
    def begin(self, owner: str, locks: Lockset) -> None:
        call = Call(owner, locks, self.loop.create_future())
        call.task = self.loop.create_task(call.run(self.locks))
        self.calls.append(call)
        self.settle()

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), how=st.sampled_from(["done", "error", "cancel"]))
    def end_one(self, data: st.DataObject, how: str) -> None:
        call = data.draw(st.sampled_from(self.calls))
        self.finish([call], how)

    @precondition(lambda self: len(self.calls) > 1)
    @rule(data=st.data())
    def end_a_holder_and_cancel_another_in_the_same_moment(self, data: st.DataObject) -> None:
        """The other may have been woken already and not yet have run."""
        holders = [call for call in self.calls if call.inside]
        holder = data.draw(st.sampled_from(holders))
        other = data.draw(st.sampled_from([call for call in self.calls if call is not holder]))
        holder.end.set_result("done")
        for _ in range(data.draw(st.integers(0, 2))):
            self.loop.run_until_complete(asyncio.sleep(0))
        self.finish([other], "cancel")
        self.finish([holder], "done")

    def finish(self, calls: list[Call], how: str) -> None:
        for call in calls:
            assert call.task is not None
            if how == "cancel" or not call.inside:
                call.task.cancel()
            elif not call.end.done():
                call.end.set_result(how)
            self.settle()
            assert call.task.done()
            if not call.task.cancelled():
                call.task.exception()
            self.calls.remove(call)

    @invariant()
    def those_inside_are_those_who_hold(self) -> None:
        inside = [call for call in self.calls if call.inside]
        assert len(self.locks.claims()) == len(self.calls)
        assert len(inside) == len(self.locks._table.granted)
        for place, one in enumerate(inside):
            for other in inside[place + 1 :]:
                first, second = Asked(0, one.owner, one.locks), Asked(0, other.owner, other.locks)
                assert not first.barred_by(second, excused=True) or not second.barred_by(
                    first, excused=True
                )

    @invariant()
    def somebody_is_inside_while_anybody_waits(self) -> None:
        assert not self.calls or any(call.inside for call in self.calls)

    def teardown(self) -> None:
        """The line drains, whatever is in it."""
        while self.calls:
            self.finish([next(call for call in self.calls if call.inside)], "done")
        assert self.locks.claims() == ()
        assert not self.locks._wakeups
        self.loop.close()


@pytest.mark.parametrize("part", machine_runs())
def test_random_claims_on_the_table_are_granted_by_the_rules(part: int) -> None:
    run_state_machine_as_test(TableMachine, settings=machine_settings(40, 40, usual_length=95))


@pytest.mark.parametrize("part", machine_runs())
def test_random_calls_that_end_break_and_are_cancelled_leave_the_locks_in_order(part: int) -> None:
    run_state_machine_as_test(LocksMachine, settings=machine_settings(20, 30, usual_length=82))


def test_the_walks_through_table_and_locks_went_far_enough() -> None:
    assert all([enough_steps(TableMachine), enough_steps(LocksMachine)])

"""Every state of the real lock table with three lanes: safe, free of deadlock, and everybody's turn comes.

Beside it its negative twins, tables with one rule broken each, in which the same checks must find the fault
(GUARANTEES 4, row R10).
"""

import itertools

import pytest

from choir_agent.locks.claim import Claim, Lockset, make_claim
from choir_agent.locks.lock_table import LockTable
from tests.unit.agent.lock_model import Caller, Explored, explore
from tests.unit.agent.lock_rules import s, x

READ, WRITE = (s("file:a"),), (x("file:a"),)
COMMAND = (x("workspace"),)


class CheckedTable(LockTable):
    """The real table, which also tells what its waiters watch."""

    def shape(self) -> object:
        return dict(self._watches)


class PartialTable:
    """Twin: takes the locks of a set one by one, in the order they are written, and keeps what it has."""

    def __init__(self) -> None:
        self._inner = LockTable()
        self._next = 1
        self._claims: dict[int, Claim] = {}
        self._parts: dict[int, list[Claim]] = {}

    @property
    def granted(self) -> dict[int, Claim]:
        return {ticket: self._claims[ticket] for ticket in self._parts if self._has_all(ticket)}

    @property
    def waiting(self) -> dict[int, Claim]:
        return {ticket: self._claims[ticket] for ticket in self._parts if not self._has_all(ticket)}

    def shape(self) -> object:
        return tuple(len(parts) for _, parts in sorted(self._parts.items()))

    def request(self, owner: str, locks: Lockset) -> Claim:
        claim = make_claim(self._next, owner, locks)
        self._next += 1
        self._claims[claim.ticket], self._parts[claim.ticket] = claim, []
        self._go_on(claim.ticket)
        return claim

    def release(self, claim: Claim) -> list[Claim]:
        for part in self._parts.pop(claim.ticket):
            self._inner.release(part)
        for ticket in [*self._parts]:
            self._go_on(ticket)
        return []

    def _go_on(self, ticket: int) -> None:
        claim, parts = self._claims[ticket], self._parts[ticket]
        while len(parts) < len(claim.locks) and all(p.ticket in self._inner.granted for p in parts):
            parts.append(self._inner.request(claim.owner, (claim.locks[len(parts)],)))

    def _has_all(self, ticket: int) -> bool:
        parts = self._parts[ticket]
        whole = len(parts) == len(self._claims[ticket].locks)
        return whole and all(part.ticket in self._inner.granted for part in parts)


class ReadersFirstTable(CheckedTable):
    """Twin: no writer preference; only holders stand in the way."""

    def _claim_blocking_new(self, claim: Claim) -> Claim | None:
        return self._granted_index.find_conflict(claim, dirty=True)

    def _blocking_claim(self, claim: Claim) -> Claim | None:
        return self._granted_index.find_conflict(claim, dirty=True)


class BoundlessReadsTable(CheckedTable):
    """Control case: the edge's reads pass callers that wait for the workspace, even without a core job."""

    def _claim_blocking_new(self, claim: Claim) -> Claim | None:
        before = self._waiting_index.find_conflict(claim, dirty=True)
        return before or self._granted_index.find_conflict(claim, dirty=True)

    def _blocking_claim(self, claim: Claim) -> Claim | None:
        return self._granted_index.find_conflict(claim, dirty=True) or self._waiting_index.earlier(
            claim, dirty=True
        )


class BlindTable(CheckedTable):
    """Control case: a dirty read of the workspace sees no lock at all."""

    def _claim_blocking_new(self, claim: Claim) -> Claim | None:
        return None if claim.may_read_dirty else super()._claim_blocking_new(claim)


class ForgetfulTable(CheckedTable):
    """Twin: does not look again at those who wait behind one who gave up."""

    def release(self, claim: Claim) -> list[Claim]:
        if claim.ticket in self.waiting:
            self._watchers.pop(claim.ticket, None)
        return super().release(claim)


DIFFERENT_ORDER = (
    Caller("core:one", ((x("file:a"), x("browser_tab")),)),
    Caller("core:two", ((x("browser_tab"), x("file:a")),)),
    Caller("edge", (READ, (x("choirtmp"), x("browser_tab")))),
)
READERS_AND_A_WRITER = (
    Caller("core:one", (READ,)),
    Caller("core:two", (READ, WRITE)),
    Caller("core:three", (WRITE, (s("file:a/b"), x("choirtmp")))),
)
EDGE_AND_COMMANDS = (
    Caller("edge", (READ, (x("workspace"),))),
    Caller("edge", (READ, (s("file:b"), x("choirtmp")))),
    Caller("core:one", (COMMAND, READ)),
    Caller("core:two", (COMMAND, (x("file:a"), x("choirtmp")))),
)
TREE = (
    Caller("edge", ((s("file:a/b"),), (x("file:a/b"),))),
    Caller("core:one", ((s("file:a"),), (x("file:."),), COMMAND)),
    Caller("core:two", ((x("file:a/b/c"),), (s("file:."), x("file:c")))),
)


def all_locksets(*keys: str) -> tuple[Lockset, ...]:
    """Return every way to lock some of the keys."""
    choices = [(None, s(key), x(key)) for key in keys]
    chosen = (tuple(lock for lock in locks if lock) for locks in itertools.product(*choices))
    return tuple(locks for locks in chosen if locks)


SCENES = {
    "all locksets of workspace and file": tuple(
        Caller(owner, all_locksets("workspace", "file:a"))
        for owner in ("edge", "core:one", "core:two")
    ),
    "all locksets of file and directory": tuple(
        Caller(owner, all_locksets("file:a", "file:a/b"))
        for owner in ("edge", "core:one", "core:two")
    ),
    "all locksets of workspace and choirtmp": tuple(
        Caller(owner, all_locksets("workspace", "choirtmp"))
        for owner in ("edge", "core:one", "core:two")
    ),
    "different order": DIFFERENT_ORDER,
    "readers and a writer": READERS_AND_A_WRITER,
    "edge and commands": EDGE_AND_COMMANDS,
    "tree": TREE,
}


def faults(explored: Explored) -> set[str]:
    found = {
        "collision": explored.collisions(),
        "deadlock": explored.deadlocks(),
        "starvation": explored.starved(),
    }
    return {name for name, where in found.items() if where}


@pytest.mark.parametrize("scene", SCENES)
def test_in_every_state_the_table_is_safe_and_everybodys_turn_comes(scene: str) -> None:
    explored = explore(CheckedTable(), SCENES[scene])
    print(f"{scene}: {len(explored.worlds)} states, {sum(map(len, explored.ways))} ways")
    assert len(explored.worlds) > 20
    assert faults(explored) == set()


def test_a_table_that_grants_in_parts_is_found_to_deadlock() -> None:
    assert "deadlock" in faults(explore(PartialTable(), DIFFERENT_ORDER))


def test_a_table_without_writer_preference_is_found_to_starve_the_writer() -> None:
    explored = explore(ReadersFirstTable(), READERS_AND_A_WRITER)
    assert faults(explored) == {"starvation"}
    assert 2 in explored.starved()


def test_a_table_without_a_limit_to_dirty_reads_is_found_to_starve_core_jobs() -> None:
    explored = explore(BoundlessReadsTable(), EDGE_AND_COMMANDS)
    assert faults(explored) == {"starvation"}
    assert {2, 3} & set(explored.starved())


def test_a_table_whose_dirty_reads_see_no_lock_is_found_to_collide() -> None:
    assert "collision" in faults(explore(BlindTable(), EDGE_AND_COMMANDS))


def test_a_table_that_forgets_a_waiter_is_found_to_leave_it_there() -> None:
    assert {"deadlock", "starvation"} & faults(explore(ForgetfulTable(), READERS_AND_A_WRITER))

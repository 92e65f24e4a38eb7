"""The rules of docs/design/locks.md as a simple model; the lock table is compared with it."""

from dataclasses import dataclass, field

from choir_agent.locks.claim import Lockset
from choir_common.wire.events import HeldLock


def s(resource: str) -> HeldLock:
    """Return a shared lock."""
    return HeldLock(resource=resource, mode="S")


def x(resource: str) -> HeldLock:
    """Return an exclusive lock."""
    return HeldLock(resource=resource, mode="X")


def meet(one: str, other: str) -> bool:
    """Tell whether two keys name something in common."""
    if one == other:
        return True
    trees = [key == "workspace" or key.startswith("file:") for key in (one, other)]
    if not all(trees):
        return False
    if {one, other} & {"workspace", "file:."}:
        return True
    return one.startswith(other + "/") or other.startswith(one + "/")


@dataclass(frozen=True)
class Asked:
    """A claim as the rules see it."""

    ticket: int
    owner: str
    locks: Lockset

    def commands(self) -> bool:
        """Tell whether a core job asks for the whole workspace."""
        return self.owner.startswith("core:") and x("workspace") in self.locks

    def barred_by(self, other: "Asked", *, excused: bool) -> bool:
        """Tell whether another claim stands in the way; `excused`: the edge's reads pass commands."""
        for mine in self.locks:
            for theirs in other.locks:
                if "X" not in (mine.mode, theirs.mode) or not meet(mine.resource, theirs.resource):
                    continue
                reads = self.owner == "edge" and mine.mode == "S" and mine.resource[:5] == "file:"
                command = other.owner.startswith("core:") and theirs == x("workspace")
                if not (excused and reads and command):
                    return True
        return False


@dataclass
class PlainTable:
    """The lock table as one would write it without a thought for time."""

    holding: dict[int, Asked] = field(default_factory=dict)
    waiting: dict[int, Asked] = field(default_factory=dict)

    def ask(self, claim: Asked) -> None:
        """Put a claim into the line, and see who goes."""
        self.waiting[claim.ticket] = claim
        self.advance()

    def release(self, ticket: int) -> None:
        """Take a claim out, and see who goes."""
        self.holding.pop(ticket, None)
        self.waiting.pop(ticket, None)
        self.advance()

    def advance(self) -> None:
        """Grant whatever no holder and no earlier waiter bars."""
        while True:
            free = [claim for claim in self.waiting.values() if not self.obstacles(claim)]
            if not free:
                return
            self.holding[free[0].ticket] = self.waiting.pop(free[0].ticket)

    def obstacles(self, claim: Asked) -> list[Asked]:
        """Return all that stand in a claim's way."""
        commanded = any(holder.commands() for holder in self.holding.values())
        held = [one for one in self.holding.values() if claim.barred_by(one, excused=True)]
        line = [one for one in self.waiting.values() if one.ticket < claim.ticket]
        return held + [one for one in line if claim.barred_by(one, excused=commanded)]

"""Decide who holds what: the lock table as a plain data structure, without waiting (spec 9).

Called by `locks`, which adds the waiting. A lockset is granted whole, when it collides with no holder and
with nobody who came earlier. So a waiting writer blocks the readers behind it (writer preference), and
since the queue is in order of arrival nobody starves; nothing is held while waiting, so nothing deadlocks.
"""

from dataclasses import dataclass

from choir_agent.locks.keys import collide, dirty_read
from choir_common.wire.events import LockHold

Lockset = tuple[LockHold, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A lockset that a lane's call holds or waits for; `ticket` is its place in line."""

    ticket: int
    owner: str
    locks: Lockset


def _bars(earlier: Claim, claim: Claim) -> bool:
    return any(
        collide(wanted, other) and not dirty_read(claim.owner, wanted, earlier.owner, other)
        for wanted in claim.locks
        for other in earlier.locks
    )


class LockTable:
    """Holders and the line of those who wait."""

    def __init__(self) -> None:
        self._next_ticket = 1
        self.holding: dict[int, Claim] = {}
        self.waiting: dict[int, Claim] = {}

    def ask(self, owner: str, locks: Lockset) -> Claim:
        """Put a claim into the line; `grant` says who goes."""
        claim = Claim(self._next_ticket, owner, locks)
        self._next_ticket += 1
        self.waiting[claim.ticket] = claim
        return claim

    def barred_by(self, owner: str, locks: Lockset) -> tuple[Claim, ...]:
        """Return the claims a new one would have to wait for."""
        claim = Claim(self._next_ticket, owner, locks)
        others = [*self.holding.values(), *self.waiting.values()]
        return tuple(other for other in others if _bars(other, claim))

    def grant(self) -> list[Claim]:
        """Let everybody go who can, in order of arrival; returns them."""
        granted: list[Claim] = []
        still: list[Claim] = []
        for claim in self.waiting.values():
            free = not any(_bars(holder, claim) for holder in self.holding.values())
            if free and not any(_bars(earlier, claim) for earlier in still):
                self.holding[claim.ticket] = claim
                granted.append(claim)
            else:
                still.append(claim)
        self.waiting = {claim.ticket: claim for claim in still}
        return granted

    def release(self, claim: Claim) -> None:
        """Take a claim out, whether it holds or waits; a second time changes nothing."""
        self.holding.pop(claim.ticket, None)
        self.waiting.pop(claim.ticket, None)

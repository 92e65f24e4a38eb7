"""Lock table: decides which claims are granted. A plain data structure without waiting.

Called by `locks`, which adds the waiting. A lockset is granted as a whole if it conflicts with no granted
claim and with no earlier waiting claim. A waiting writer therefore blocks later readers (writer
preference), order of arrival prevents starvation, and a waiting claim has no locks, which prevents
deadlock.

Dirty reads of the edge lane pass a core job's lock on the workspace, and the claims that wait for one, but
only while a core job has that lock: once none has it, the first waiting claim goes before all new reads.

Each waiting claim watches one claim that blocks it and is examined again only when that claim ends: a queue
of 1,000 claims for one file advances at the cost of one. See docs/design/locks.md.
"""

from choir_agent.locks.claim import Claim, Lockset, make_claim
from choir_agent.locks.keys import collide, is_command, reads_under_commands
from choir_agent.locks.places import Places


class LockTable:
    """Granted claims and the queue of waiting claims."""

    def __init__(self) -> None:
        self._next_ticket = 1
        self.holding: dict[int, Claim] = {}
        self.waiting: dict[int, Claim] = {}
        self._held = Places()
        self._line = Places()
        self._watchers: dict[int, dict[int, Claim]] = {}
        self._watches: dict[int, int] = {}
        self._commands = 0
        self._waiting_reads: dict[int, Claim] = {}

    def ask(self, owner: str, locks: Lockset) -> Claim:
        """Grant a claim at once if nothing blocks it, else queue it."""
        claim = self._new(owner, locks)
        self._next_ticket += 1
        obstacle = self._obstacle_of_new(claim)
        if obstacle is None:
            self._give(claim)
            return claim
        self.waiting[claim.ticket] = claim
        self._line.put(claim)
        # When the first command is granted, these claims may pass the others that wait.
        if claim.reads_dirty:
            self._waiting_reads[claim.ticket] = claim
        self._watch(claim, obstacle)
        return claim

    def release(self, claim: Claim) -> list[Claim]:
        """Remove a granted or waiting claim; return the claims that are granted as a result.

        A repeated release has no effect.
        """
        if self.holding.pop(claim.ticket, None) is not None:
            self._held.take(claim)
            self._commands -= claim.is_command
        elif claim.ticket in self.waiting:
            self._leave_line(claim)
        else:
            return []
        watchers = self._watchers.pop(claim.ticket, {})
        return self._look_again(sorted(watchers.values(), key=_ticket))

    def barred_by(self, owner: str, locks: Lockset) -> tuple[Claim, ...]:
        """Return the claims that a new one would have to wait for."""
        claim = self._new(owner, locks)
        if self._obstacle_of_new(claim) is None:
            return ()
        passing = self._commands > 0
        held = (other for other in self.holding.values() if _collide(other, claim, True))
        line = (other for other in self.waiting.values() if _collide(other, claim, passing))
        return (*held, *line)

    def _new(self, owner: str, locks: Lockset) -> Claim:
        return make_claim(self._next_ticket, owner, locks)

    def _obstacle_of_new(self, claim: Claim) -> Claim | None:
        # Look at the end of the queue first: each waiter then watches its predecessor, which keeps
        # lists of watchers short.
        before = self._line.any_before(claim, dirty=self._commands > 0)
        return before or self._held.any_before(claim, dirty=True)

    def _obstacle(self, claim: Claim) -> Claim | None:
        held = self._held.any_before(claim, dirty=True)
        return held or self._line.earlier(claim, dirty=self._commands > 0)

    def _look_again(self, claims: list[Claim]) -> list[Claim]:
        granted: list[Claim] = []
        for claim in claims:
            if claim.ticket not in self.waiting:
                continue
            obstacle = self._obstacle(claim)
            if obstacle is not None:
                self._watch(claim, obstacle)
                continue
            self._leave_line(claim)
            self._give(claim)
            granted.append(claim)
            if claim.is_command and self._commands == 1:
                # From now on dirty reads may pass the claims that wait for the workspace.
                granted += self._look_again(sorted(self._waiting_reads.values(), key=_ticket))
        return granted

    def _watch(self, claim: Claim, obstacle: Claim) -> None:
        self._unwatch(claim)
        self._watchers.setdefault(obstacle.ticket, {})[claim.ticket] = claim
        self._watches[claim.ticket] = obstacle.ticket

    def _unwatch(self, claim: Claim) -> None:
        watched = self._watches.pop(claim.ticket, None)
        others = self._watchers.get(watched) if watched is not None else None
        if watched is not None and others is not None:
            others.pop(claim.ticket, None)
            if not others:
                del self._watchers[watched]

    def _leave_line(self, claim: Claim) -> None:
        self._unwatch(claim)
        del self.waiting[claim.ticket]
        self._line.take(claim)
        self._waiting_reads.pop(claim.ticket, None)

    def _give(self, claim: Claim) -> None:
        self.holding[claim.ticket] = claim
        self._held.put(claim)
        self._commands += claim.is_command


def _ticket(claim: Claim) -> int:
    return claim.ticket


def _collide(earlier: Claim, claim: Claim, dirty: bool) -> bool:
    return any(
        collide(wanted, other)
        and not (
            dirty and reads_under_commands(claim.owner, wanted) and is_command(earlier.owner, other)
        )
        for wanted in claim.locks
        for other in earlier.locks
    )

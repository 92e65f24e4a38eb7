"""Lock table: decides which claims are granted. A plain data structure; `LockManager` adds the waiting.

A lockset is granted as a whole if it conflicts with no granted claim and with no earlier waiting claim. A
waiting writer therefore blocks later readers (writer preference), order of arrival prevents starvation, and a
waiting claim has no locks, which prevents deadlock.

Dirty reads of the edge lane pass a core job's lock on the workspace, and the claims that wait for one, but
only while a core job has that lock: once none has it, the first waiting claim goes before all new reads.

Each waiting claim watches one claim that blocks it and is examined again only when that claim ends: a queue
of 1,000 claims for one file advances at the cost of one. See docs/design/locks.md.
"""

from choir_agent.locks.claim import (
    Claim,
    Lockset,
    is_dirty_read,
    is_job_command,
    locks_conflict,
    make_claim,
)


class ClaimIndex:
    """Claims by index entry, in the order of their tickets."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[int, Claim]] = {}

    def put(self, claim: Claim) -> None:
        """Add a claim."""
        for key in claim.index_keys:
            self._claims.setdefault(key, {})[claim.ticket] = claim

    def take(self, claim: Claim) -> None:
        """Remove a claim."""
        for key in claim.index_keys:
            claims = self._claims[key]
            del claims[claim.ticket]
            if not claims:
                del self._claims[key]

    def find_conflict(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return one indexed claim that conflicts with `claim`, which is not indexed here, or None."""
        for key in claim.dirty_lookup_keys if dirty else claim.lookup_keys:
            claims = self._claims.get(key)
            if claims:
                return next(reversed(claims.values()))
        return None

    def earlier(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return one indexed claim that conflicts with `claim` and arrived before it, or None."""
        for key in claim.dirty_lookup_keys if dirty else claim.lookup_keys:
            claims = self._claims.get(key)
            # Entries are in ticket order, so the first one decides.
            first = next(iter(claims.values())) if claims else None
            if first is not None and first.ticket < claim.ticket:
                return first
        return None


class LockTable:
    """Granted claims and the queue of waiting claims."""

    def __init__(self) -> None:
        self._next_ticket = 1
        self.granted: dict[int, Claim] = {}
        self.waiting: dict[int, Claim] = {}
        self._granted_index = ClaimIndex()
        self._waiting_index = ClaimIndex()
        self._watchers: dict[int, dict[int, Claim]] = {}
        self._watches: dict[int, int] = {}
        self._granted_commands = 0
        self._waiting_reads: dict[int, Claim] = {}

    def request(self, owner: str, locks: Lockset) -> Claim:
        """Grant a claim at once if nothing blocks it, else queue it."""
        claim = self._new(owner, locks)
        self._next_ticket += 1
        obstacle = self._claim_blocking_new(claim)
        if obstacle is None:
            self._grant(claim)
            return claim
        self.waiting[claim.ticket] = claim
        self._waiting_index.put(claim)
        # When the first command is granted, these claims may pass the others that wait.
        if claim.may_read_dirty:
            self._waiting_reads[claim.ticket] = claim
        self._watch(claim, obstacle)
        return claim

    def release(self, claim: Claim) -> list[Claim]:
        """Remove a granted or waiting claim; return the claims that are granted as a result.

        A repeated release has no effect.
        """
        if self.granted.pop(claim.ticket, None) is not None:
            self._granted_index.take(claim)
            self._granted_commands -= claim.is_command
        elif claim.ticket in self.waiting:
            self._dequeue(claim)
        else:
            return []
        watchers = self._watchers.pop(claim.ticket, {})
        return self._grant_unblocked(sorted(watchers.values(), key=_ticket))

    def blocking_claims(self, owner: str, locks: Lockset) -> tuple[Claim, ...]:
        """Return the claims that a new one would have to wait for."""
        claim = self._new(owner, locks)
        if self._claim_blocking_new(claim) is None:
            return ()
        passing = self._granted_commands > 0
        granted = (other for other in self.granted.values() if _collide(other, claim, True))
        waiting = (other for other in self.waiting.values() if _collide(other, claim, passing))
        return (*granted, *waiting)

    def _new(self, owner: str, locks: Lockset) -> Claim:
        return make_claim(self._next_ticket, owner, locks)

    def _claim_blocking_new(self, claim: Claim) -> Claim | None:
        # Look at the end of the queue first: each waiter then watches its predecessor, which keeps
        # lists of watchers short.
        obstacle = self._waiting_index.find_conflict(claim, dirty=self._granted_commands > 0)
        return obstacle or self._granted_index.find_conflict(claim, dirty=True)

    def _blocking_claim(self, claim: Claim) -> Claim | None:
        blocker = self._granted_index.find_conflict(claim, dirty=True)
        return blocker or self._waiting_index.earlier(claim, dirty=self._granted_commands > 0)

    def _grant_unblocked(self, claims: list[Claim]) -> list[Claim]:
        granted: list[Claim] = []
        for claim in claims:
            if claim.ticket not in self.waiting:
                continue
            obstacle = self._blocking_claim(claim)
            if obstacle is not None:
                self._watch(claim, obstacle)
                continue
            self._dequeue(claim)
            self._grant(claim)
            granted.append(claim)
            if claim.is_command and self._granted_commands == 1:
                # From now on dirty reads may pass the claims that wait for the workspace.
                granted += self._grant_unblocked(sorted(self._waiting_reads.values(), key=_ticket))
        return granted

    def _watch(self, claim: Claim, obstacle: Claim) -> None:
        self._unwatch(claim)
        self._watchers.setdefault(obstacle.ticket, {})[claim.ticket] = claim
        self._watches[claim.ticket] = obstacle.ticket

    def _unwatch(self, claim: Claim) -> None:
        ticket = self._watches.pop(claim.ticket, None)
        others = self._watchers.get(ticket) if ticket is not None else None
        if ticket is not None and others is not None:
            others.pop(claim.ticket, None)
            if not others:
                del self._watchers[ticket]

    def _dequeue(self, claim: Claim) -> None:
        self._unwatch(claim)
        del self.waiting[claim.ticket]
        self._waiting_index.take(claim)
        self._waiting_reads.pop(claim.ticket, None)

    def _grant(self, claim: Claim) -> None:
        self.granted[claim.ticket] = claim
        self._granted_index.put(claim)
        self._granted_commands += claim.is_command


def _ticket(claim: Claim) -> int:
    return claim.ticket


def _collide(earlier: Claim, claim: Claim, dirty: bool) -> bool:
    return any(
        locks_conflict(lock, other)
        and not (
            dirty and is_dirty_read(claim.owner, lock) and is_job_command(earlier.owner, other)
        )
        for lock in claim.locks
        for other in earlier.locks
    )

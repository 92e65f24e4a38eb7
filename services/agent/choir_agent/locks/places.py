"""Index of claims by lock key. Used by `table`, once for granted and once for waiting claims."""

from choir_agent.locks.claim import Claim


class Places:
    """Claims by index entry, in the order of their tickets."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[int, Claim]] = {}

    def put(self, claim: Claim) -> None:
        """Add a claim."""
        for mark in claim.marks:
            self._marks.setdefault(mark, {})[claim.ticket] = claim

    def take(self, claim: Claim) -> None:
        """Remove a claim."""
        for mark in claim.marks:
            here = self._marks[mark]
            del here[claim.ticket]
            if not here:
                del self._marks[mark]

    def any_before(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return one indexed claim that conflicts with `claim`, which is not indexed here, or None."""
        for look in claim.looks_dirty if dirty else claim.looks:
            here = self._marks.get(look)
            if here:
                return next(reversed(here.values()))
        return None

    def earlier(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return one indexed claim that conflicts with `claim` and arrived before it, or None."""
        for look in claim.looks_dirty if dirty else claim.looks:
            here = self._marks.get(look)
            # Entries are in ticket order, so the first one decides.
            first = next(iter(here.values())) if here else None
            if first is not None and first.ticket < claim.ticket:
                return first
        return None

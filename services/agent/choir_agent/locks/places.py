"""Keep claims where they stand in others' way. Used by `table`, for the holders and for the line."""

from choir_agent.locks.claim import Claim


class Places:
    """Claims by place, in the order of their tickets."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[int, Claim]] = {}

    def put(self, claim: Claim) -> None:
        """Let a claim stand in the way from now on."""
        for mark in claim.marks:
            self._marks.setdefault(mark, {})[claim.ticket] = claim

    def take(self, claim: Claim) -> None:
        """Let a claim that stood in the way do so no more."""
        for mark in claim.marks:
            here = self._marks[mark]
            del here[claim.ticket]
            if not here:
                del self._marks[mark]

    def any_before(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return some claim here that collides with one that is not here."""
        for look in claim.looks_dirty if dirty else claim.looks:
            here = self._marks.get(look)
            if here:
                return next(reversed(here.values()))
        return None

    def earlier(self, claim: Claim, *, dirty: bool) -> Claim | None:
        """Return some claim here that came earlier than one that is here too, and collides with it."""
        for look in claim.looks_dirty if dirty else claim.looks:
            here = self._marks.get(look)
            first = next(iter(here.values())) if here else None
            if first is not None and first.ticket < claim.ticket:
                return first
        return None

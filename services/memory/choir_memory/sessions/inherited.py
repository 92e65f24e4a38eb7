"""What a session took over from the ones before it, and how far that may be trusted: pure.

A session begins with a reference summary and with copies of the events that the last prompt showed
(decision 45). Once they are folded together with its own events, its summary may repeat them, and has no
more trust than they have.
"""

from dataclasses import dataclass, field

from choir_common.wire.events import CarriedEvent, MemoryCompacted, SessionStarted

EDGE = "edge"
ALL_REVS = (0, 2**62)


@dataclass(slots=True)
class Inherited:
    """The sessions, and of each the first and the last revision, that a session's summary may repeat."""

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    least: int | None = None
    """The least trust of what the copied events had read."""
    copied_through: int = 0
    """The revision of the last copy in the new log."""
    folded: bool = False

    def begin(self, started: SessionStarted) -> None:
        """Note the sessions whose events the first summary was made from."""
        for lane in started.seed:
            for session_id in lane.summary.referenced_sessions:
                self.spans[session_id] = ALL_REVS
        if started.continues:
            self.spans[started.continues] = ALL_REVS

    def carry(self, copy: CarriedEvent, rev: int, least: int | None) -> None:
        """Note a copied event, which stands at `rev` of the new log, and the trust of what it read."""
        first, last = self.spans.get(copy.session_id, (copy.rev, copy.rev))
        self.spans[copy.session_id] = (min(first, copy.rev), max(last, copy.rev))
        self.copied_through = rev
        if least is not None:
            self.least = least if self.least is None else min(self.least, least)

    def fold(self, compacted: MemoryCompacted) -> None:
        """Note that the edge lane's summary now covers events of the session itself.

        A summary of copies alone is left out when the session is summed up.
        """
        if compacted.target == EDGE and compacted.through_rev > self.copied_through:
            self.folded = bool(self.spans)

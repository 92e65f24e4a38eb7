"""Summaries of sessions and of what rolled off a lane's event window; parts of `events`."""

from choir_common.wire.model import Wire


class SummaryTopic(Wire):
    """A part of a session's summary that stands for itself."""

    title: str
    text: str


class Fact(Wire):
    """Something a reference summary keeps, and the hash of the event it comes from."""

    key: str
    value: str
    source_event: str = ""


class ReferenceSummary(Wire):
    """What rolled off a lane's event window, summed up (spec 11.3)."""

    summary: str = ""
    facts: tuple[Fact, ...] = ()
    referenced_sessions: tuple[str, ...] = ()
    referenced_events: tuple[str, ...] = ()


class LaneSummary(Wire):
    """A lane's reference summary, which covers its events up to `through_rev`."""

    lane: str
    summary: ReferenceSummary
    through_rev: int = 0

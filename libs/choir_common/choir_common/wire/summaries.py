"""Summaries of sessions and of lanes' older events; parts of `events`."""

from choir_common.wire.model import Wire


class SummaryTopic(Wire):
    """An independent part of a session's summary."""

    title: str
    text: str


class Fact(Wire):
    """A fact in a reference summary, and the hash of the event it comes from."""

    key: str
    value: str
    source_event: str = ""


class ReferenceSummary(Wire):
    """Summary of the events that have left a lane's event window."""

    summary: str = ""
    facts: tuple[Fact, ...] = ()
    referenced_sessions: tuple[str, ...] = ()
    referenced_events: tuple[str, ...] = ()


class LaneSummary(Wire):
    """A lane's reference summary, which covers its events up to `through_rev`."""

    lane: str
    summary: ReferenceSummary
    through_rev: int = 0

"""An event as the rooms of the agent are told of it: typed, with its place in the log."""

from dataclasses import dataclass

from choir_common.wire.events import EventPayload


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed event."""

    rev: int
    hash: str
    lane: str
    at: str
    payload: EventPayload

"""An event as the rooms of the agent are told of it: typed, with its place in the log."""

from dataclasses import dataclass

from choir_common.wire.events import CarriedEvent, EventPayload, carried_payload_of


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed event."""

    rev: int
    hash: str
    lane: str
    at: str
    payload: EventPayload


def original_of(event: Committed, carried: CarriedEvent) -> Committed:
    """Return the event that was copied, at the copy's place in the log."""
    return Committed(event.rev, event.hash, event.lane, carried.at, carried_payload_of(carried))

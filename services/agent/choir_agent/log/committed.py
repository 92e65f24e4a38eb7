"""A committed event as the agent's listeners receive it: parsed, with its place in the log."""

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
    """Return the original of a carried event, at the copy's revision in this log."""
    return Committed(event.rev, event.hash, event.lane, carried.at, carried_payload_of(carried))

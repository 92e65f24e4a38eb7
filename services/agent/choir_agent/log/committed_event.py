"""A committed event as the agent's listeners receive it: parsed, with its place in the log.

Distribution of committed events to listeners, in the order of their registration.

`app` connects it to `session_log`. A listener that is added after the log was restored receives new events
only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from choir_common.wire.events import CarriedEvent, EventPayload, parse_carried_payload


@dataclass(frozen=True, slots=True)
class CommittedEvent:
    """A committed event."""

    rev: int
    hash: str
    lane: str
    at: str
    payload: EventPayload


def original_of(event: CommittedEvent, carried: CarriedEvent) -> CommittedEvent:
    """Return the original of a carried event, at the copy's revision in this log."""
    return CommittedEvent(
        event.rev, event.hash, event.lane, carried.at, parse_carried_payload(carried)
    )


Listener = Callable[[CommittedEvent], None]


class EventListeners:
    """Synchronous listeners for committed events; none of them may block."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Register `listener` for all later events."""
        self._listeners.append(listener)

    def tell(self, event: CommittedEvent) -> None:
        """Pass an event to every listener."""
        for listener in self._listeners:
            listener(event)

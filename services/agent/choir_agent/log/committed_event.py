"""Committed events as the agent's listeners receive them: parsed, with their position in the log.

A listener that is added after the log was restored receives new events only.
"""

from dataclasses import dataclass
from typing import Protocol

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


class EventListener(Protocol):
    """Receiver of committed events."""

    def on_event(self, event: CommittedEvent) -> None:
        """Handle an event; must not block."""


class EventListeners:
    """Distributor of committed events to listeners, in the order of their registration."""

    def __init__(self, *listeners: EventListener) -> None:
        self._listeners = [*listeners]

    def add(self, *listeners: EventListener) -> None:
        """Add listeners for all later events."""
        self._listeners += listeners

    def on_event(self, event: CommittedEvent) -> None:
        """Pass an event to every listener."""
        for listener in self._listeners:
            listener.on_event(event)

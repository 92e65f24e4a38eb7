"""Rooms of the fake homeserver: their events in order, their state at each position, and relations."""

import base64
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject

SERVER_NAME = "example.org"
DEFAULT_STATE_POWER = 50


def make_event_id() -> str:
    """Return a new id as in room version 4 and later: 43 characters after the dollar sign."""
    return "$" + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


@dataclass(slots=True, eq=False)
class FakeEvent:
    """An event of a room."""

    type: str
    sender: str
    content: JsonObject
    state_key: str | None = None
    event_id: str = field(default_factory=make_event_id)
    sent_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    redacted_by: "FakeEvent | None" = None

    @property
    def relation(self) -> JsonObject:
        """Its `m.relates_to`."""
        relation = self.content.get("m.relates_to")
        return relation if isinstance(relation, dict) else {}

    def relates_to(self, rel_type: str) -> str | None:
        """Return the event to which it relates in this way."""
        target = self.relation.get("event_id")
        return str(target) if self.relation.get("rel_type") == rel_type else None

    def as_json(self) -> JsonObject:
        """Return the event in the format for clients, without its relations."""
        body: JsonObject = {
            "type": self.type,
            "sender": self.sender,
            "event_id": self.event_id,
            "origin_server_ts": self.sent_ms,
            "content": {} if self.redacted_by is not None else self.content,
            "unsigned": {},
        }
        if self.state_key is not None:
            body["state_key"] = self.state_key
        if self.redacted_by is not None:
            body["unsigned"] = {"redacted_because": self.redacted_by.as_json()}
        return body


@dataclass(slots=True, eq=False)
class FakeRoom:
    """A room; positions are those of the whole homeserver."""

    room_id: str
    timeline: list[tuple[int, FakeEvent]] = field(default_factory=list)
    typing: dict[str, int] = field(default_factory=dict)
    """Milliseconds for which a member is shown typing; 0: no longer."""

    def find(self, event_id: str) -> FakeEvent | None:
        """Return an event."""
        return next((it for _, it in self.timeline if it.event_id == event_id), None)

    def state_at(self, position: float) -> dict[tuple[str, str], FakeEvent]:
        """Return the state after all events up to a position."""
        return {
            (event.type, event.state_key): event
            for at, event in self.timeline
            if at <= position and event.state_key is not None
        }

    @property
    def state(self) -> dict[tuple[str, str], FakeEvent]:
        """The current state."""
        return self.state_at(float("inf"))

    def membership(self, user_id: str) -> str:
        """Return the membership of a user."""
        event = self.state.get(("m.room.member", user_id))
        return str(event.content["membership"]) if event else "leave"

    def power(self, user_id: str) -> int:
        """Return the power level of a user."""
        event = self.state.get(("m.room.power_levels", ""))
        users = event.content.get("users") if event else None
        level = users.get(user_id) if isinstance(users, dict) else None
        return level if isinstance(level, int) else 0

    @property
    def is_encrypted(self) -> bool:
        """Whether it is encrypted."""
        return ("m.room.encryption", "") in self.state

    def latest_edit(self, event: FakeEvent) -> FakeEvent | None:
        """Return the newest valid replacement of an event."""
        edits = [
            it
            for _, it in self.timeline
            if it.relates_to("m.replace") == event.event_id
            and it.sender == event.sender
            and it.type == event.type
            and isinstance(it.content.get("m.new_content"), dict)
            and it.redacted_by is None
        ]
        is_editable = event.redacted_by is None and event.relates_to("m.replace") is None
        return max(edits, key=lambda it: it.sent_ms) if edits and is_editable else None

    def event_json(self, event: FakeEvent) -> JsonObject:
        """Return an event for clients, with the newest edit of it."""
        body = event.as_json()
        edit = self.latest_edit(event)
        if edit is not None:
            body["unsigned"] = {"m.relations": {"m.replace": edit.as_json()}}
        return body

    def reactions(self, event_id: str) -> list[tuple[str, str]]:
        """Return the reactions to an event: who, and which emoji."""
        return [
            (it.sender, str(it.relation.get("key")))
            for it in self.events("m.reaction")
            if it.relates_to("m.annotation") == event_id
        ]

    def events(self, event_type: str) -> Iterator[FakeEvent]:
        """Yield the events of a type that were not deleted."""
        for _, event in self.timeline:
            if event.type == event_type and event.redacted_by is None:
                yield event

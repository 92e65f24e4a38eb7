"""In-memory event log of the session: the newest events, linked by hash, and the state of the whole log.

Only the arbiter appends to it. Events are stored as their wire bytes. Durable events beyond `kept_bytes` are
dropped, so memory use does not grow with the session: control stores all events.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from choir_agent.log.committed_event import CommittedEvent, EventListener
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState
from choir_common.clock import Clock
from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import LogHead, find_break, head_of, link_event
from choir_common.eventlog.json_scrubbing import needs_scrubbing, scrub_json
from choir_common.redactor import Redactor
from choir_common.wire.events import (
    Event,
    EventPayload,
    Reply,
    UserMessageStarted,
    parse_payload,
    render_payload,
)
from choir_common.wire.model import JsonObject

MAX_IDS = 2_000
"""A repetition comes within moments, or with the log's tail after a crash; never after this many other
ids."""


class RecentIds:
    """The ids that were added last."""

    def __init__(self, max_ids: int = MAX_IDS) -> None:
        self._most = max_ids
        # A dict preserves insertion order.
        self._ids: dict[str, None] = {}

    def add(self, id_: str) -> None:
        """Add an id; drop the oldest id beyond the limit."""
        self._ids[id_] = None
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, id_: object) -> bool:
        """Return whether the id was added and not dropped yet."""
        return id_ in self._ids

    def __len__(self) -> int:
        """Return the number of ids in the set."""
        return len(self._ids)


MAX_DURABLE_BYTES = 1_000_000
"""Wire bytes of durable events that stay in memory: most searches concern the newest part."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An event in its wire format."""

    rev: int
    hash: str
    wire: bytes

    def event(self) -> Event:
        """Return the parsed event."""
        return Event.model_validate_json(self.wire)


class SessionLog:
    """The authoritative event log while the agent runs; Postgres has its durable copy.

    `listener` receives each event in order, including those of the restored tail. `redactor` removes secret
    values, so that no event contains one.
    """

    def __init__(
        self,
        session_id: str,
        *,
        clock: Clock,
        listener: EventListener,
        redactor: Redactor,
        kept_bytes: int = MAX_DURABLE_BYTES,
    ) -> None:
        self._session_id = session_id
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._clock = clock
        self._listener = listener
        self.redactor = redactor
        self.entries: list[LogEntry] = []
        """The newest events, without gaps, up to the head."""
        self.head = LogHead()
        self.state = SessionState()
        self.taken_inbox_ids = RecentIds()
        """Inbox ids of all user_msg events: a message is taken up once."""
        self.sent_call_ids = RecentIds()
        """Call ids of all replies that a call sent: a call sends its message once."""
        self.has_new_events = asyncio.Event()

    def restore(self, tail: Iterable[Event], head: LogHead) -> None:
        """Start from the durable tail of the log that control sent.

        Raises InvalidRequest if the tail's hash chain is broken or does not end at `head`.
        """
        events = tuple(tail)
        if events:
            start = LogHead(events[0].rev - 1, events[0].hash_prev)
            broken = find_break(events, start)
            if broken is not None or head_of(events[-1]) != head:
                raise InvalidRequest(f"the log from control does not match its head: {broken}")
        for event in events:
            self._store(event, parse_payload(event))
        self.head = head
        # Everything that control sent is durable.
        self.drop_durable(head.rev)

    def append(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int:
        """Append an event, linked to the current head; return its revision.

        With `more_follows` replication is not woken: the event is sent together with the next one. Raises
        InvalidRequest if the payload cannot be written as JSON, even after scrubbing.
        """
        # Redact before linking: the hash must cover the text that is stored.
        payload = _redacted_payload(payload, self.redactor)
        event = link_event(self.head, self._session_id, lane, payload, self._clock.now())
        self._store(event, payload)
        if not more_follows:
            self.has_new_events.set()
        return event.rev

    def events_after(self, rev: int, max_events: int, max_bytes: int) -> tuple[LogEntry, ...]:
        """Return the events after `rev`, oldest first, within both limits but at least one if present."""
        if rev >= self.head.rev:
            return ()
        # Entries have no gaps, so the distance to the head gives the index.
        first = len(self.entries) - (self.head.rev - rev)
        batch: list[LogEntry] = []
        room = max_bytes
        for entry in self.entries[first : first + max_events]:
            room -= len(entry.wire)
            if batch and room < 0:
                break
            batch.append(entry)
        return tuple(batch)

    def drop_durable(self, durable_rev: int) -> None:
        """Drop the oldest durable events beyond `kept_bytes`."""
        count = 0
        for entry in self.entries:
            # Events that are not durable stay: they are still to be sent.
            if self._bytes <= self._kept_bytes or entry.rev > durable_rev:
                break
            self._bytes -= len(entry.wire)
            count += 1
        del self.entries[:count]

    def _store(self, event: Event, payload: EventPayload) -> None:
        wire = event.model_dump_json().encode()
        self.entries.append(LogEntry(event.rev, event.hash, wire))
        self._bytes += len(wire)
        self.head = head_of(event)
        committed = CommittedEvent(event.rev, event.hash, event.lane, event.at, payload)
        self.state = apply_event(self.state, committed)
        match payload:
            case UserMessageStarted(inbox_id=inbox_id):
                self.taken_inbox_ids.add(inbox_id)
            case Reply(call_id=call_id) if call_id:
                self.sent_call_ids.add(call_id)
            case _:
                pass
        self._listener.on_event(committed)


def _redacted_payload(payload: EventPayload, redactor: Redactor) -> EventPayload:
    raw = render_payload(payload)
    try:
        text = orjson.dumps(raw).decode()
    except (orjson.JSONEncodeError, TypeError):
        text = ""
    if text and not needs_scrubbing(text) and redactor.redact(text) == text:
        return payload
    # Validate the cleaned text again, so that the event in memory equals the stored event.
    return type(payload).model_validate_json(redactor.redact(_scrubbed(raw).decode()))


def _scrubbed(raw: JsonObject) -> bytes:
    try:
        return orjson.dumps(scrub_json(raw))
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidRequest(f"an event cannot be written as JSON: {error}") from error

"""Search in the session's own log by words or by hash, and reading it in order (store `working`). Pure.

Searches all events it is given, including those outside the window. Returns only what a lane may read: a core
job never sees the user's own text, and no lane sees an output that its prompts must not show.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson
from pydantic import JsonValue

from choir_agent.log.session_log import LogEntry
from choir_common.lanes import EDGE_LANE, is_edge
from choir_common.wire.events import CarriedEvent, Event
from choir_common.wire.rpc import MAX_TERMS, MIN_HASH_PREFIX

EXCERPT_CHARS = 600
QUERY_TOOL = "choir.memory.query"

# Event types with content; other events repeat it or are internal.
_SAID = frozenset(
    {
        "user_msg",
        "model_output",
        "tool_result_committed",
        "reply",
        "core_started",
        "core_reported",
        "core_stopped",
        "injected_instruction",
        "approval_decided",
        "memory_compacted",
        "session_started",
    }
)
CARRIED = "carried_event"
SEARCHED = _SAID | {CARRIED}
"""Event types that can be found."""
# Ids are not content.
_UNSAID_KEYS = frozenset(
    {"turn_id", "inbox_id", "call_id", "job_id", "dm", "model", "answers", "provider_fields"}
)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The lane and the call that search."""

    lane: str = EDGE_LANE
    call_id: str = ""
    """The querying call itself is excluded from the results."""


@dataclass(frozen=True, slots=True)
class LogHit:
    """A matching event, its text, and the number of matching words."""

    event: Event
    text: str
    score: int


def search_words(
    entries: Sequence[LogEntry], query: str, limit: int, reader: SearchScope
) -> list[LogHit]:
    """Return the events with the most matching words; among equals, the newest first."""
    terms = _words(query)
    on_the_wire = words_in_json(query)
    scored: list[tuple[int, int, LogHit]] = []
    for entry in entries:
        lowered = entry.wire.decode().lower()
        # Cheap filter: most events contain none of the words anywhere.
        if not any(term in lowered for term in on_the_wire):
            continue
        for hit in _read(entry, reader):
            text = hit.text.lower()
            score = sum(1 for term in terms if term in text)
            if score:
                scored.append((score, entry.rev, LogHit(hit.event, hit.text, score)))
    scored.sort(key=lambda hit: hit[:2], reverse=True)
    return [hit for _, _, hit in scored[:limit]]


def search_hash(
    entries: Sequence[LogEntry], prefix: str, limit: int, reader: SearchScope
) -> list[LogHit]:
    """Return the events with a hash that begins with `prefix` (at least six characters)."""
    hash_prefix = prefix.strip().lower()
    if len(hash_prefix) < MIN_HASH_PREFIX:
        return []
    matches = (entry for entry in entries if entry.hash.startswith(hash_prefix))
    return [hit for entry in matches for hit in _read(entry, reader)][:limit]


def read_in_order(
    entries: Sequence[LogEntry], after: int | None, limit: int, reader: SearchScope
) -> tuple[list[LogHit], int | None]:
    """Return the newest events in order, or those after a revision, and the revision to continue after.

    The second value is None if there are no more events.
    """
    if after is None:
        newest = (hit for entry in reversed(entries) for hit in _read(entry, reader))
        return list(islice(newest, limit))[::-1], None
    later = (hit for entry in entries if entry.rev > after for hit in _read(entry, reader))
    hits = list(islice(later, limit + 1))
    return hits[:limit], hits[limit - 1].event.rev if len(hits) > limit else None


def excerpt(text: str, query: str) -> str:
    """Return the part of `text` around the first matching word of `query`."""
    lowered = text.lower()
    positions = [position for word in _words(query) if (position := lowered.find(word)) >= 0]
    start = max(0, min(positions, default=0) - EXCERPT_CHARS // 3)
    end = start + EXCERPT_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def words_in_json(query: str) -> tuple[str, ...]:
    """Return the words of a query in lower case, escaped as in an event's JSON."""
    return tuple(orjson.dumps(word).decode()[1:-1] for word in _words(query))


def _words(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(query.lower().split()))[:MAX_TERMS]


def _read(entry: LogEntry, reader: SearchScope) -> Iterator[LogHit]:
    event = entry.event()
    if event.type == CARRIED:
        carried = CarriedEvent.model_validate(event.payload)
        event = event.model_copy(update={"type": carried.event_type, "payload": carried.payload})
    if event.type in _SAID and _may_read(event, reader):
        text = " ".join(_texts(_shown(event)))
        if text:
            yield LogHit(event, text, 1)


def _may_read(event: Event, reader: SearchScope) -> bool:
    payload = event.payload
    if event.type == "user_msg" or payload.get("by") == "user":
        return is_edge(reader.lane)
    if event.type == "tool_result_committed":
        # Results of earlier searches are in the log at their original place.
        exposure = "edge" if is_edge(reader.lane) else "core"
        is_visible = payload.get("exposure", "both") in ("both", exposure)
        return is_visible and payload.get("tool") != QUERY_TOOL
    if event.type == "model_output":
        return not _proposes(payload.get("tool_calls"), reader.call_id)
    return True


def _proposes(calls: JsonValue, call_id: str) -> bool:
    tool_calls = calls if isinstance(calls, list) else []
    return any(isinstance(call, dict) and call.get("call_id") == call_id for call in tool_calls)


def _shown(event: Event) -> JsonValue:
    if not event.payload.get("masked"):
        return event.payload
    output = event.payload.get("output")
    summary = output.get("summary") if isinstance(output, dict) else None
    return {"tool": event.payload.get("tool"), "summary": summary}


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for key, item in value.items():
                if key not in _UNSAID_KEYS:
                    yield from _texts(item)
        case bool() | None:
            pass
        case int() | float():
            yield orjson.dumps(value).decode()

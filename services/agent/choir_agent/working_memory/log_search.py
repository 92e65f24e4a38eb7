"""Search in the session's own log by words or by hash, and reading it in order (store `working`). Pure.

Searches all events it is given, including those outside the window. Returns only what a lane may read:
nothing of other conversations, for a core job not the user's own text, and no output that its prompts must
not show.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import orjson
from pydantic import JsonValue

from choir_agent.log.session_log import LogEntry
from choir_agent.log.session_state import SessionState
from choir_common.lanes import EDGE_LANE, is_core, is_edge
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
CORE_STARTED = b'"core_started"'
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
    edge: str = EDGE_LANE
    """The edge lane of their conversation. Events of others are not returned."""
    is_shared: bool = False
    """Whether other conversations may have started core jobs in this session."""
    job_edges: Mapping[str, str] = field(default_factory=dict)
    """In a shared session, the edge lanes that started the core jobs, by the jobs' ids."""

    @classmethod
    def of(
        cls,
        state: SessionState,
        lane: str,
        call_id: str,
        *,
        entries: Sequence[LogEntry],
        selection: Sequence[LogEntry] = (),
    ) -> "SearchScope":
        """Return the scope of a call, which may find events among `entries`.

        Control has made the `selection` of them for the conversation of the call.
        """
        edge, job_edges = state.edge_of(lane), dict[str, str]()
        if state.is_shared:
            own_events = (entry.event() for entry in selection)
            job_edges |= {_job_id(event): edge for event in own_events if is_core(event.lane)}
            starts = (entry.event() for entry in entries if CORE_STARTED in entry.wire)
            job_edges |= {
                _job_id(event): event.lane for event in starts if event.type == "core_started"
            }
            job_edges |= {job.turn_id: job.edge for job in state.jobs}
        return cls(lane, call_id, edge, state.is_shared, job_edges)


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


def _is_of_conversation(event: Event, reader: SearchScope) -> bool:
    """Return whether an event belongs to the reader's conversation, or to none."""
    payload = event.payload
    if is_edge(event.lane):
        return event.lane == reader.edge
    if is_core(event.lane):
        # What an unknown job did belongs to nobody: its start is no longer in memory.
        unknown = "" if reader.is_shared else EDGE_LANE
        return reader.job_edges.get(_job_id(event), unknown) == reader.edge
    seeds = payload.get("seed")
    summaries = (
        [seed for seed in seeds if isinstance(seed, dict)] if isinstance(seeds, list) else []
    )
    return all(summary.get("lane") == reader.edge for summary in summaries)


def _job_id(event: Event) -> str:
    return str(event.payload.get("job_id") or event.payload.get("turn_id"))


def _may_read(event: Event, reader: SearchScope) -> bool:
    if not _is_of_conversation(event, reader):
        return False
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

"""Search the session's own log by words or by hash (spec 11.7, store `working`).

Called by the tool `choir.memory.query`; pure. It looks at every event, so it runs only when asked for.
"""

from dataclasses import dataclass

import orjson

from choir_agent.log.session_log import Entry
from choir_common.wire.events import Event

EXCERPT_CHARS = 600
SHORTEST_HASH = 6


@dataclass(frozen=True, slots=True)
class Found:
    """An event that fits, its payload as text, and how many of the words it holds."""

    event: Event
    text: str
    score: int


def by_words(entries: list[Entry], query: str, limit: int) -> list[Found]:
    """Return the events that hold most of the words; among equals the newest first."""
    words = set(query.lower().split())
    scored: list[tuple[int, int, Entry]] = []
    for entry in entries:
        lowered = entry.wire.decode().lower()
        score = sum(1 for word in words if word in lowered)
        if score:
            scored.append((score, entry.rev, entry))
    scored.sort(key=lambda hit: hit[:2], reverse=True)
    return [_found(entry, score) for score, _, entry in scored[:limit]]


def by_hash(entries: list[Entry], prefix: str, limit: int) -> list[Found]:
    """Return the events whose hash begins with `prefix` (six characters or more)."""
    if len(prefix) < SHORTEST_HASH:
        return []
    found = [entry for entry in entries if entry.hash.startswith(prefix.lower())]
    return [_found(entry, 1) for entry in found[:limit]]


def _found(entry: Entry, score: int) -> Found:
    event = entry.event()
    return Found(event, orjson.dumps(event.payload).decode(), score)


def excerpt(text: str, query: str) -> str:
    """Return the part of `text` around the first word of `query` that stands in it."""
    lowered = text.lower()
    places = [place for word in query.lower().split() if (place := lowered.find(word)) >= 0]
    start = max(0, min(places, default=0) - EXCERPT_CHARS // 3)
    end = start + EXCERPT_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")

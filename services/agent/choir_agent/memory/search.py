"""Search the session's own log by words or by hash (spec 11.7, store `working`).

Called by the tool `choir.memory.query`; pure. It looks at every event, so it runs only when asked for.
"""

from dataclasses import dataclass

import orjson

from choir_agent.log.session_log import Entry

EXCERPT_CHARS = 600
SHORTEST_HASH = 6


@dataclass(frozen=True, slots=True)
class Found:
    """An event that fits, and how many of the words it holds."""

    entry: Entry
    text: str
    score: int


def by_words(entries: list[Entry], query: str, limit: int) -> list[Found]:
    """Return the events that hold most of the words; among equals the newest first."""
    words = set(query.lower().split())
    found: list[Found] = []
    for entry in entries:
        text = orjson.dumps(entry.event.payload).decode()
        lowered = text.lower()
        score = sum(1 for word in words if word in lowered)
        if score:
            found.append(Found(entry, text, score))
    found.sort(key=lambda hit: (-hit.score, -hit.entry.event.rev))
    return found[:limit]


def by_hash(entries: list[Entry], prefix: str, limit: int) -> list[Found]:
    """Return the events whose hash begins with `prefix` (six characters or more)."""
    if len(prefix) < SHORTEST_HASH:
        return []
    return [
        Found(entry, orjson.dumps(entry.event.payload).decode(), 1)
        for entry in entries
        if entry.event.hash.startswith(prefix.lower())
    ][:limit]


def excerpt(text: str, query: str) -> str:
    """Return the part of `text` around the first word of `query` that stands in it."""
    lowered = text.lower()
    places = [place for word in query.lower().split() if (place := lowered.find(word)) >= 0]
    start = max(0, min(places, default=0) - EXCERPT_CHARS // 3)
    end = start + EXCERPT_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")

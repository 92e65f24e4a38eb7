"""Cache of small spaces that are searched often, bounded in bytes.

Reading a space into memory costs several searches, so it is read at the third search within a minute. A space
that is in use is not displaced by another one: if more spaces are searched than fit, the first ones stay.
Whether an entry is current is checked by the database, in each search (`cached_space_store`).
"""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from choir_memory.search.cached_space import CachedSpace
from choir_memory.search.candidate_columns_store import CandidateColumns
from choir_memory.search.scope_store import SearchScope

CACHE_TTL_S = 300.0
"""Seconds after which an entry is read again. Much less than the hour for which changes are recorded."""
EXPIRY_DELAY_S = 0.1
"""Seconds after the end of an entry at which it is removed without a search."""
IN_USE_S = 60.0
"""Seconds since the last search for which an entry is not displaced, and for which searches are counted."""
SEARCHES_TO_CACHE = 3
SEARCHES_TO_RETRY = 30
"""Searches after which a space is read again that was changed while it was read, or did not fit."""
MAX_COUNTED_SPACES = 1_024

SpaceKey = tuple[SearchScope, int]
"""A scope with its filters, and the embedding model."""


@dataclass(slots=True)
class _Entry:
    space: CachedSpace
    read_at: float
    used_at: float


@dataclass(slots=True)
class _SearchCount:
    searches: int
    since: float


def space_key(columns: CandidateColumns) -> SpaceKey | None:
    """Return the key of a search, or None if it uses no vectors: then there is little to save."""
    return None if columns.vector is None else (columns.scope, columns.vector.model)


class SpaceCache:
    """Cache of spaces, least recently used first; an entry takes half of `max_bytes` at most."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[SpaceKey, _Entry] = OrderedDict()
        self._counts: OrderedDict[SpaceKey, _SearchCount] = OrderedDict()

    @property
    def max_entry_bytes(self) -> int:
        """Return the maximum size of an entry."""
        return self._max_bytes // 2

    @property
    def size(self) -> int:
        """Return the size of all entries in bytes."""
        return sum(entry.space.size for entry in self._entries.values())

    def find(self, key: SpaceKey) -> CachedSpace | None:
        """Return the space as it was read, and mark it as used."""
        self.expire()
        if (entry := self._entries.get(key)) is None:
            return None
        entry.used_at = time.monotonic()
        self._entries.move_to_end(key)
        return entry.space

    def expire(self) -> None:
        """Remove all entries that are too old."""
        now = time.monotonic()
        for old in [k for k, entry in self._entries.items() if now - entry.read_at >= CACHE_TTL_S]:
            del self._entries[old]

    def should_read(self, key: SpaceKey) -> bool:
        """Count a search of a space that is not cached; return whether to read it into memory now."""
        if not self._max_bytes:
            return False
        now = time.monotonic()
        count = self._counts.setdefault(key, _SearchCount(0, now))
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_COUNTED_SPACES:
            self._counts.popitem(last=False)
        if now - count.since > IN_USE_S:
            count.searches, count.since = 0, now
        count.searches += 1
        if count.searches < SEARCHES_TO_CACHE:
            return False
        count.searches = SEARCHES_TO_CACHE - SEARCHES_TO_RETRY
        return True

    def put(self, key: SpaceKey, space: CachedSpace) -> None:
        """Store a space, unless only entries in use could make room for it."""
        self.drop(key)
        if space.size > self.max_entry_bytes:
            return
        now, size = time.monotonic(), self.size
        while size + space.size > self._max_bytes:
            oldest, entry = next(iter(self._entries.items()))
            if now - entry.used_at < IN_USE_S:
                return
            size -= entry.space.size
            del self._entries[oldest]
        self._entries[key] = _Entry(space, now, now)
        self._counts.pop(key, None)
        # what was erased must not stay in memory because nobody searches any more
        asyncio.get_running_loop().call_later(CACHE_TTL_S + EXPIRY_DELAY_S, self.expire)

    def drop(self, key: SpaceKey) -> None:
        """Remove a space that has changed."""
        self._entries.pop(key, None)

"""One lock per key: per agent, per conversation, per repository."""

import asyncio
from weakref import WeakValueDictionary


class KeyedLock:
    """One `asyncio.Lock` per key, kept while somebody refers to it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """Return the lock of `key`."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

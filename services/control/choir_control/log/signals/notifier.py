"""In-process notification of waiting tasks, and the interface that starts deliveries.

A missed notification does no harm: the receivers also poll.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol


class OutboxRescanner(Protocol):
    """Outbox worker, as seen by the code that adds rows to the table `outbox`."""

    def rescan(self, dm: str) -> None:
        """Read the undelivered rows of a conversation (DM) and deliver them."""


class Notifier:
    """Notifier with listeners by key (a DM or a session id)."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, key: str) -> None:
        """Wake all listeners of `key`."""
        for event in self._listeners.get(key, ()):
            event.set()

    def notify_all(self) -> None:
        """Wake all listeners."""
        for listeners in self._listeners.values():
            for event in listeners:
                event.set()

    @contextlib.contextmanager
    def listen(self, *keys: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when any of `keys` is notified; the listener clears it."""
        event = asyncio.Event()
        for key in keys:
            self._listeners[key].add(event)
        try:
            yield event
        finally:
            for key in keys:
                self._listeners[key].discard(event)
                if not self._listeners[key]:
                    del self._listeners[key]

"""Distribution of committed events to listeners, in the order of their registration.

`app` connects it to `session_log`. A listener that is added after the log was restored receives new events
only.
"""

from collections.abc import Callable

from choir_agent.log.committed import Committed

Listener = Callable[[Committed], None]


class Listeners:
    """Synchronous listeners for committed events; none of them may block."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Register `listener` for all later events."""
        self._listeners.append(listener)

    def tell(self, event: Committed) -> None:
        """Pass an event to every listener."""
        for listener in self._listeners:
            listener(event)

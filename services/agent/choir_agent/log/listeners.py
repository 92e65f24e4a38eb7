"""Tell several rooms of each committed event, in the order in which they asked to be told.

Given to `session_log` by `app`. Who asks after a log was restored is told only of what comes.
"""

from collections.abc import Callable

from choir_agent.log.committed import Committed

Listener = Callable[[Committed], None]


class Listeners:
    """Those who are told; none of them may wait."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Tell `listener` from now on."""
        self._listeners.append(listener)

    def tell(self, event: Committed) -> None:
        """Pass an event on to everybody."""
        for listener in self._listeners:
            listener(event)

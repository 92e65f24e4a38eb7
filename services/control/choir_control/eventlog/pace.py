"""Rate limit for the events of one session, so that a runaway agent costs the others little.

Checked by `append` before it parses a heartbeat (GUARANTEES S21). The session is slowed down, not
refused: its events are stored, and its heartbeat still counts as a sign of life.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

# A busy agent writes some hundred events a second. Ten thousand that accumulated during an outage
# take three seconds.
EVENTS_PER_S = 2_000.0
BURST = 5_000.0
# Sessions in memory; one that was dropped starts with a full burst.
SESSIONS = 2_000


class Pace:
    """The token bucket of each session."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The time at which all events stored so far will have been paid for, by session.
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, session_id: str) -> float:
        """Return the seconds that a session must wait before its next append."""
        ahead = self._paid_at.get(session_id, 0.0) - self._clock()
        return max(0.0, ahead - BURST / EVENTS_PER_S)

    def told(self, session_id: str, events: int) -> None:
        """Count stored events; events that could not be stored will be sent again and cost nothing."""
        now = self._clock()
        paid_at = max(self._paid_at.get(session_id, now), now) + events / EVENTS_PER_S
        self._paid_at[session_id] = paid_at
        self._paid_at.move_to_end(session_id)
        if len(self._paid_at) > SESSIONS:
            self._paid_at.popitem(last=False)

"""Hold back a session that tells more than any honest one, so that it costs the others little.

Asked by `append` before a heartbeat is looked at closely (GUARANTEES S21). It is slowed down, not refused:
what it says counts, and its heartbeat is a sign of life all the same.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

# a busy agent makes some hundred events a second; ten thousand that gathered in an outage go in three seconds
EVENTS_PER_S = 2_000.0
BURST = 5_000.0
# sessions remembered; one that was forgotten begins anew
SESSIONS = 2_000


class Pace:
    """How far each session is ahead of what it may tell."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # when everything told so far will have been paid for
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, session_id: str) -> float:
        """Return for how long a session has to wait before it tells more."""
        ahead = self._paid_at.get(session_id, 0.0) - self._clock()
        return max(0.0, ahead - BURST / EVENTS_PER_S)

    def told(self, session_id: str, events: int) -> None:
        """Count events that were stored; what could not be costs nothing, for it will be sent again."""
        now = self._clock()
        paid_at = max(self._paid_at.get(session_id, now), now) + events / EVENTS_PER_S
        self._paid_at[session_id] = paid_at
        self._paid_at.move_to_end(session_id)
        if len(self._paid_at) > SESSIONS:
            self._paid_at.popitem(last=False)

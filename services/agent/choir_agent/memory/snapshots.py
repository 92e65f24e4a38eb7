"""Write the state into the log every so many events, so that recovery is bounded (spec 13.1, 13.4).

Called by the arbiter after it has committed; control begins the tail it hands over at `window_from` of the
newest snapshot.
"""

import orjson

from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import dump
from choir_agent.memory.working import WorkingMemory
from choir_common.wire.events import Snapshot

EVERY = 200
LANE = "session"
LARGEST = 900_000
"""Bytes; what jobs and turns are in the middle of may be longer than one event should be."""
PAUSE = 20
"""Events until the next attempt."""


class Snapshots:
    """Makes them in time."""

    def __init__(self, memory: WorkingMemory, every: int = EVERY) -> None:
        self._memory = memory
        self._every = every
        self._not_before = 0

    def follow(self, session_log: SessionLog) -> None:
        """Append a snapshot if it is time for one; nothing follows the end of a session."""
        state = session_log.state
        due_at = max(self._memory.snapshot_rev + self._every, self._not_before)
        if state.rev < due_at or state.stopped:
            return
        dumped = dump(state)
        if len(orjson.dumps(dumped)) > LARGEST:
            self._not_before = state.rev + PAUSE
            return
        window_from = self._memory.needed_from(state.rev + 1)
        session_log.append(LANE, Snapshot(state=dumped, window_from=window_from))
